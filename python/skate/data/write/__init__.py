"""Writers, one file for each format: run(params, batches, task) writes files in a worker and yields
one report row for each file. job.py has a write from start to end. The promises of
Dataset.write_...():

All files of a write appear in the folder together, when all of them are complete. Their names are
<id of the write>_<task>_<file of the task>.<ending>: no other write uses these names, on whatever
machine. They sort in the order of the rows, and several writes sort by the time of their start. The
bytes are the same in each run. `mode` says what happens to files that exist already. If other
programs write into the folder at the same time: "append" ignores their files, and loses none of its
own; "error" is a ValueError also if another write has added files in the meantime, which stay;
"overwrite" removes the files that existed when it began, and files that another write of that mode
has added since (the last one to commit has the folder), but not files that were appended in the
meantime. Where files are written in place (file systems that are not local) two writes that
overwrite at the same time leave the files of both. If a name from a filename_provider is in use
already, there is a FileExistsError (with "overwrite" only if the file did not exist when the write
began).

resume=True: a job (its operators, functions, input files, options) is written into its folder once,
however often the program is killed and started again. <path>/.skate-job/log records what is done,
and stays there; remove the folder .skate-job to write the same again. ValueError: the log is of
another job that has not ended, or the plan has no units that stay the same in the next run
(from_items and similar sources, a materialized Dataset, limit, union and zip have none). Each file
has rows of one unit of the input only; batches of map_batches do not cross units; so
min_rows_per_file is refused. A target that is not local needs a local folder for the log,
resume="/logs"; such files are at their final paths before the job ends. A filename_provider must
depend on its arguments alone. DataContext.checkpoint_config does the same with Ray's name
(skate.data.checkpoint).
"""
