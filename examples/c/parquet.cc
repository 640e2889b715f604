// parquet.cc - Parquet by Arrow C++: a source that reads one row group a task, and a sink that
// writes one file a task. Batches cross by the Arrow C Data Interface.
//
//     parquet FOLDER COLUMN FILE ...     sorts the rows of Parquet files by COLUMN, into the files
//                                        part-NNNNN.parquet of FOLDER
//
// c++ -std=c++20 parquet.cc -o parquet $(pkg-config --cflags --libs skate arrow parquet)
#include <arrow/c/bridge.h>
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_reader.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "skate_data.h"

namespace fs = std::filesystem;

// ---- source: the unit is the number of a row group, then the path ------------------------------

static arrow::Result<std::unique_ptr<parquet::arrow::FileReader>> open_file(const char *path) {
    ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(path));
    return parquet::arrow::OpenFile(file, arrow::default_memory_pool());
}

static arrow::Status emit_row_group(skate_task *t, int *rc) {
    int group;
    const char *unit = static_cast<const char *>(skate_arg(t, nullptr));
    memcpy(&group, unit, sizeof group);
    ARROW_ASSIGN_OR_RAISE(auto file, open_file(unit + sizeof group));
    ARROW_ASSIGN_OR_RAISE(auto batches, file->GetRecordBatchReader({group}));
    for (std::shared_ptr<arrow::RecordBatch> rows; *rc == 0;) {
        ArrowSchema schema;
        ArrowArray batch;
        ARROW_RETURN_NOT_OK(batches->ReadNext(&rows));
        if (!rows) break;
        ARROW_RETURN_NOT_OK(arrow::ExportRecordBatch(*rows, &batch, &schema));
        *rc = skate_emit(t, &schema, &batch); // SKATE_ECANCEL: no more rows are needed
        schema.release(&schema);
    }
    return arrow::Status::OK();
}
SKATE_TASK(read_row_group) {
    int rc = 0;
    arrow::Status s = emit_row_group(t, &rc);
    return s.ok() ? rc : skate_fail(t, "%s", s.ToString().c_str());
}

// The row groups of a file, with their rows and sizes, from its footer.
static arrow::Status add_units(const char *path, std::vector<std::string> *units,
                               std::vector<skate_unit> *sizes) {
    ARROW_ASSIGN_OR_RAISE(auto file, open_file(path));
    auto footer = file->parquet_reader()->metadata();
    for (int i = 0; i < footer->num_row_groups(); i++) {
        auto group = footer->RowGroup(i);
        units->push_back(std::string(reinterpret_cast<char *>(&i), sizeof i) + path + '\0');
        sizes->push_back({nullptr, 0, group->num_rows(), group->total_byte_size()});
    }
    return arrow::Status::OK();
}

// ---- sink: a task writes tmp-<id>; the commit gives the files their names ----------------------

struct Part {
    std::string path;
    std::shared_ptr<arrow::io::FileOutputStream> file;
    std::unique_ptr<parquet::arrow::FileWriter> writer; // null: no batch has come yet
};

static arrow::Status write_rows(Part *p, const ArrowSchema *schema, ArrowArray *batch) {
    ArrowSchema s = *schema; // the schema is skate's: Arrow gets a copy that releases nothing
    s.release = [](ArrowSchema *x) { x->release = nullptr; };
    ARROW_ASSIGN_OR_RAISE(auto rows, arrow::ImportRecordBatch(batch, &s));
    if (!p->writer) {
        ARROW_ASSIGN_OR_RAISE(p->file, arrow::io::FileOutputStream::Open(p->path));
        ARROW_ASSIGN_OR_RAISE(
            p->writer, parquet::arrow::FileWriter::Open(*rows->schema(),
                                                        arrow::default_memory_pool(), p->file));
    }
    return p->writer->WriteRecordBatch(*rows);
}
static arrow::Status close_file(Part *p) {
    ARROW_RETURN_NOT_OK(p->writer->Close());
    if (fsync(p->file->file_descriptor())) return arrow::Status::IOError("cannot sync ", p->path);
    return p->file->Close();
}
static int answer(skate_task *t, const arrow::Status &s) {
    return s.ok() ? SKATE_OK : skate_fail(t, "%s", s.ToString().c_str());
}

static int begin(skate_task *t, void **part) {
    const char *folder = static_cast<const char *>(skate_arg(t, nullptr));
    *part = new Part{std::string(folder) + "/tmp-" + skate_write_id(t), nullptr, nullptr};
    return SKATE_OK;
}
static int batch(skate_task *t, const ArrowSchema *schema, ArrowArray *rows) {
    return answer(t, write_rows(static_cast<Part *>(skate_task_state(t)), schema, rows));
}
static int end(skate_task *t) {
    Part *p = static_cast<Part *>(skate_task_state(t));
    if (!p->writer) return SKATE_OK;
    int rc = answer(t, close_file(p));
    return rc ? rc : skate_report(t, p->path.c_str(), p->path.size() + 1);
}
static void drop(void *part) { delete static_cast<Part *>(part); }
static const skate_batch_fns write_part = {
    sizeof write_part, batch, nullptr, nullptr, begin, end, drop};

static int commit(void *folder, const struct skate_arg *reports, size_t n) {
    std::error_code failed;
    for (size_t i = 0; i < n && !failed; i++) {
        char name[32];
        snprintf(name, sizeof name, "part-%05zu.parquet", i);
        fs::rename(static_cast<const char *>(reports[i].data),
                   fs::path(static_cast<char *>(folder)) / name, failed);
    }
    return failed ? SKATE_EIO : SKATE_OK;
}
static void undo(void *folder, const struct skate_arg *, size_t) {
    std::error_code failed;
    std::vector<fs::path> left; // also of tasks that did not get to a report
    for (auto &file : fs::directory_iterator(static_cast<char *>(folder), failed))
        if (file.path().filename().string().starts_with("tmp-")) left.push_back(file.path());
    for (auto &path : left) fs::remove(path, failed);
}

static int failed(const char *why) { return fprintf(stderr, "parquet: %s\n", why), 1; }

int main(int argc, char **argv) {
    if (skate_register_batches("write_part", &write_part)) return failed(skate_error());
    if (skate_worker_main(argc, argv)) return 0;
    if (argc < 4) return failed("usage: parquet FOLDER COLUMN FILE ...");
    if (skate_init(nullptr)) return failed(skate_error());
    std::vector<std::string> units;
    std::vector<skate_unit> list;
    for (int i = 3; i < argc; i++) {
        arrow::Status s = add_units(argv[i], &units, &list);
        if (!s.ok()) return failed((argv[i] + (": " + s.ToString())).c_str());
    }
    for (size_t i = 0; i < units.size(); i++)
        list[i].data = units[i].data(), list[i].bytes = units[i].size();
    skate_key key = {argv[2], false, false};
    skate_map_opts o = SKATE_OPTS(skate_map_opts);
    o.arg = argv[1], o.arg_size = strlen(argv[1]) + 1;
    skate_sink sink = {sizeof sink, "write_part", commit, undo, argv[1]};
    skate_dataset *ds = skate_source("read_row_group", list.data(), list.size(), nullptr);
    ds = skate_sort(ds, &key, 1, nullptr);
    if (skate_write(ds, &sink, &o, nullptr)) return failed(skate_error());
    skate_dataset_release(ds), skate_shutdown();
}
