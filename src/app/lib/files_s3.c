/* files_s3.c - objects of S3 (s3://bucket/key) by libcurl, which also signs the requests (SigV4):
 * ranges of 16 MiB, uploads in parts of 16 MiB.
 *
 * A request that fails for a temporary reason (5xx, 429, 408, a broken connection, an answer that
 * is cut off or stalls) is repeated, up to ten tries in all, after 0.1 s, 0.2 s ... with some
 * jitter. One thread (curl_multi) has at most eight reads of ranges and four uploads of parts under
 * way. An object appears when its upload is completed; an upload that is not completed is aborted,
 * by sweep() if its process died.
 *
 * Environment: AWS_ENDPOINT_URL (else https://<bucket>.s3.<region>.amazonaws.com), AWS_REGION or
 * AWS_DEFAULT_REGION (us-east-1), AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN.
 * Without a key requests are not signed. */
#ifdef SKATE_CURL
#include <curl/curl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "files.h"
#include "tool.h"

enum {
    RANGE = 16 << 20,
    RANGES = 8,
    PARTS = 4,
    ANSWER = 16 << 20, /* the most bytes of an answer that is no part of an object */
    TRIES = 10,
    STALL_S = 5,
    STALL_BYTES = 1 << 10,
    CONNECT_S = 10,
    NAME = 4096
};
static const double FIRST_WAIT_S = 0.1, LONGEST_WAIT_S = 5;

struct request { /* a request; each try begins by clearing the results of the one before */
    const char *method;
    uint64_t at;
    size_t range; /* number of bytes to read from `at` on; 0: the request reads no range */
    const uint8_t *body;
    size_t body_n, sent;
    /* The answer: in the caller's memory if a range is read, else in memory of the request with a
     * zero byte behind the answer. */
    uint8_t *to;
    size_t got;
    uint64_t length;
    CURL *h; /* handle of the current try */
    struct curl_slist *headers;
    double again; /* time when the next try may begin */
    int tries;
    bool done, failed;
    char url[NAME], etag[256], why[CURL_ERROR_SIZE + 2];
};

/* ---- one try of a request -------------------------------------------------------------------- */

static const char *env(const char *name, const char *otherwise) {
    const char *v = getenv(name);
    return v && *v ? v : otherwise;
}

static size_t take(char *p, size_t size, size_t n, void *ctx) {
    struct request *r = ctx;
    n *= size;
    if (r->range) {
        long status = 0;
        curl_easy_getinfo(r->h, CURLINFO_RESPONSE_CODE, &status);
        if (status == 206) {
            if (n > r->range - r->got) return 0; /* the server sent more bytes than the range has */
            memcpy(r->to + r->got, p, n);
            r->got += n;
            return n;
        }
        if (status < 300) return 0; /* the server ignores ranges and sends the whole object */
        size_t room = sizeof r->why - 1 - strlen(r->why);
        /* keeps the beginning of the server's error text */
        strncat(r->why, p, n < room ? n : room);
        return n;
    }
    if (n > ANSWER - r->got) return 0;
    r->to = tool_need(realloc(r->to, r->got + n + 1));
    memcpy(r->to + r->got, p, n);
    r->to[r->got += n] = 0;
    return n;
}

static size_t give(char *p, size_t size, size_t n, void *ctx) {
    struct request *r = ctx;
    n = n * size < r->body_n - r->sent ? n * size : r->body_n - r->sent;
    memcpy(p, r->body + r->sent, n);
    r->sent += n;
    return n;
}
static int rewind_(void *ctx, curl_off_t at, int whence) {
    struct request *r = ctx;
    if (whence != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
    r->sent = (size_t)at;
    return CURL_SEEKFUNC_OK;
}

static size_t header(char *p, size_t size, size_t n, void *ctx) {
    struct request *r = ctx;
    if (n * size > 5 && strncasecmp(p, "etag:", 5) == 0) {
        const char *from = p + 5, *end = p + n * size;
        while (from < end && *from == ' ') from++;
        while (end > from && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' ')) end--;
        snprintf(r->etag, sizeof r->etag, "%.*s", (int)(end - from), from);
    }
    return n * size;
}

static void add_header(struct request *r, const char *fmt, const char *value) {
    char line[NAME];
    snprintf(line, sizeof line, fmt, value);
    r->headers = tool_need(curl_slist_append(r->headers, line));
}

static void try_(CURLM *m, struct request *r) {
    char range[64];
    r->h = tool_need(curl_easy_init());
    r->sent = r->got = 0;
    r->etag[0] = r->why[0] = 0;
    r->tries++;
    curl_easy_setopt(r->h, CURLOPT_URL, r->url);
    curl_easy_setopt(r->h, CURLOPT_PRIVATE, r);
    curl_easy_setopt(r->h, CURLOPT_ERRORBUFFER, r->why);
    curl_easy_setopt(r->h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(r->h, CURLOPT_BUFFERSIZE, 512L << 10);
    curl_easy_setopt(r->h, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(r->h, CURLOPT_LOW_SPEED_LIMIT, (long)STALL_BYTES);
    curl_easy_setopt(r->h, CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
    curl_easy_setopt(r->h, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(r->h, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(r->h, CURLOPT_HEADERFUNCTION, header);
    curl_easy_setopt(r->h, CURLOPT_HEADERDATA, r);
    if (strcmp(r->method, "PUT") == 0) {
        curl_easy_setopt(r->h, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(r->h, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
        curl_easy_setopt(r->h, CURLOPT_READFUNCTION, give);
        curl_easy_setopt(r->h, CURLOPT_READDATA, r);
        curl_easy_setopt(r->h, CURLOPT_SEEKFUNCTION, rewind_);
        curl_easy_setopt(r->h, CURLOPT_SEEKDATA, r);
        curl_easy_setopt(r->h, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->body_n);
    } else if (strcmp(r->method, "POST") == 0) {
        curl_easy_setopt(r->h, CURLOPT_POST, 1L);
        curl_easy_setopt(r->h, CURLOPT_POSTFIELDS, r->body ? (const char *)r->body : "");
        curl_easy_setopt(r->h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_n);
    } else if (strcmp(r->method, "HEAD") == 0) curl_easy_setopt(r->h, CURLOPT_NOBODY, 1L);
    else curl_easy_setopt(r->h, CURLOPT_CUSTOMREQUEST, r->method);
    if (r->range) {
        snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, r->at, r->at + r->range - 1);
        curl_easy_setopt(r->h, CURLOPT_RANGE, range);
    }
    /* A header that curl adds is replaced, not removed by an empty one, since libcurl 7.88 would
     * sign the removed header, too. */
    if (strcmp(r->method, "POST") == 0) add_header(r, "Content-Type: %s", "application/xml");
    if (getenv("AWS_ACCESS_KEY_ID")) {
        char how[128], who[NAME];
        snprintf(how, sizeof how, "aws:amz:%s:s3",
                 env("AWS_REGION", env("AWS_DEFAULT_REGION", "us-east-1")));
        snprintf(who, sizeof who, "%s:%s", env("AWS_ACCESS_KEY_ID", ""),
                 env("AWS_SECRET_ACCESS_KEY", ""));
        curl_easy_setopt(r->h, CURLOPT_AWS_SIGV4, how);
        curl_easy_setopt(r->h, CURLOPT_USERPWD, who);
        /* parts are not signed, since computing the SHA-256 of a part would cost as much as sorting
         * it */
        add_header(r, "x-amz-content-sha256: %s", "UNSIGNED-PAYLOAD");
        if (getenv("AWS_SESSION_TOKEN"))
            add_header(r, "x-amz-security-token: %s", getenv("AWS_SESSION_TOKEN"));
    }
    curl_easy_setopt(r->h, CURLOPT_HTTPHEADER, r->headers);
    curl_multi_add_handle(m, r->h);
    *(strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0 ? &files_count.puts
                                                                      : &files_count.gets) += 1;
}

/* Handles the end of a try: decides whether the request is done, has failed or is tried again. */
static void ended(CURLM *m, struct request *r, CURLcode code) {
    long status = 0;
    curl_off_t length = -1;
    curl_easy_getinfo(r->h, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(r->h, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    r->length = length > 0 ? (uint64_t)length : 0;
    curl_multi_remove_handle(m, r->h);
    curl_easy_cleanup(r->h);
    curl_slist_free_all(r->headers);
    r->h = NULL;
    r->headers = NULL;
    bool good = code == CURLE_OK && status >= 200 && status < 300,
         lasting = status >= 400 && status < 500 && status != 408 && status != 429;
    if (good && r->range && r->got != r->range)
        good = false,
        snprintf(r->why, sizeof r->why, "%zu bytes came instead of %zu", r->got, r->range);
    if (good && strcmp(r->method, "POST") == 0 && r->to && strstr((char *)r->to, "<Error>"))
        /* CompleteMultipartUpload may answer with status 200 and report a failure in the body */
        good = false;
    if (good) {
        r->done = true;
        return;
    }
    /* the reason is the <Code> in S3's message, or the beginning of the message */
    if (status >= 300) {
        const char *said = r->range ? r->why
                           : r->to  ? (char *)r->to
                                    : "",
                   *at = strstr(said, "<Code>");
        char text[120];
        snprintf(text, sizeof text, "%.*s", at ? (int)strcspn(at + 6, "<") : 80,
                 at ? at + 6 : said);
        text[strcspn(text, "\r\n")] = 0;
        snprintf(r->why, sizeof r->why, "HTTP status %ld %s", status, text);
    } else if (!r->why[0]) {
        snprintf(r->why, sizeof r->why, "%s", code ? curl_easy_strerror(code) : "no whole answer");
    }
    r->done = r->failed = lasting || r->tries >= TRIES;
    double wait = FIRST_WAIT_S * (double)(1 << (r->tries - 1));
    r->again = tool_now() + (wait < LONGEST_WAIT_S ? wait : LONGEST_WAIT_S) * (0.5 + drand48() / 2);
}

/* Runs requests until at most `left` of the n are not done (a NULL entry has no request). */
static void drive(struct request *const *r, size_t n, size_t left) {
    static CURLM *m;
    if (!m) {
        curl_global_init(CURL_GLOBAL_DEFAULT);
        m = tool_need(curl_multi_init());
        /* a seed of its own lets each process wait for different times */
        srand48((long)(tool_now() * 1e6));
    }
    for (;;) {
        size_t busy = 0;
        double now = tool_now(), next = now + 1;
        for (size_t i = 0; i < n; i++) {
            if (!r[i] || r[i]->done) continue;
            busy++;
            if (!r[i]->h && r[i]->again <= now) try_(m, r[i]);
            else if (!r[i]->h && r[i]->again < next) next = r[i]->again;
        }
        if (busy <= left) return;
        int running, told;
        curl_multi_perform(m, &running);
        bool any = false;
        for (CURLMsg *msg; (msg = curl_multi_info_read(m, &told));) {
            struct request *of;
            if (msg->msg != CURLMSG_DONE) continue;
            curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)(void *)&of);
            ended(m, of, msg->data.result);
            any = true;
        }
        if (!any) curl_multi_poll(m, NULL, 0, (int)((next - now) * 1000) + 1, NULL);
    }
}

/* ---- requests and their answers -------------------------------------------------------------- */

static char *escape(char *to, const char *end, const char *from, const char *also) {
    for (; *from && to + 4 < end; from++) {
        bool plain = (*from >= 'a' && *from <= 'z') || (*from >= 'A' && *from <= 'Z') ||
                     (*from >= '0' && *from <= '9') || strchr("-._~", *from) || strchr(also, *from);
        to += snprintf(to, 4, plain ? "%c" : "%%%02X", (unsigned char)*from);
    }
    *to = 0;
    return to;
}

/* Sets the URL. `query`: escaped, its parts in order, each with its '='. bucket_only: the URL of
 * the bucket, without a key. */
static void address(struct request *r, const char *s3, bool bucket_only, const char *query) {
    const char *bucket = s3 + 5, *key = strchr(bucket, '/'), *endpoint = getenv("AWS_ENDPOINT_URL");
    int n = (int)(key ? key - bucket : (long)strlen(bucket));
    if (endpoint && *endpoint) snprintf(r->url, sizeof r->url, "%s/%.*s", endpoint, n, bucket);
    else
        snprintf(r->url, sizeof r->url, "https://%.*s.s3.%s.amazonaws.com", n, bucket,
                 env("AWS_REGION", env("AWS_DEFAULT_REGION", "us-east-1")));
    char *at = r->url + strlen(r->url), *end = r->url + sizeof r->url;
    at = bucket_only ? escape(at, end, "/", "/") : escape(at, end, key ? key : "/", "/");
    if (query) snprintf(at, (size_t)(end - at), "?%s", query);
}

static int failed(const char *s3, const struct request *r, const char *what) {
    return files_fail("%s: %s: %s (%d %s)", s3, what, r->why, r->tries,
                      r->tries == 1 ? "try" : "tries");
}

/* Makes one request; the answer, in r->to, is to be freed by the caller. */
static int ask(const char *s3, struct request *r, const char *what) {
    struct request *one = r;
    drive(&one, 1, 0);
    return r->failed ? failed(s3, r, what) : 0;
}

static int size(const char *s3, uint64_t *bytes, uint64_t *version) {
    struct request r = {.method = "HEAD"};
    address(&r, s3, false, NULL);
    int rc = ask(s3, &r, "size");
    *bytes = r.length;
    *version = tool_hash(0, r.etag, strlen(r.etag));
    free(r.to);
    return rc;
}

/* Prepares a request for the next 16 MiB of the ranges; false: all bytes are requested. */
static bool next_range(struct request *to, const struct files_range **r, size_t *n, size_t *from) {
    while (*n && *from == (*r)->n) *from = 0, ++*r, --*n;
    if (!*n) return false;
    size_t len = (*r)->n - *from < RANGE ? (*r)->n - *from : RANGE;
    *to = (struct request){
        .method = "GET", .at = (*r)->at + *from, .range = len, .to = (uint8_t *)(*r)->to + *from};
    address(to, (*r)->url, false, NULL);
    *from += len;
    return true;
}

static int read_(const struct files_range *range, size_t n) {
    static struct request pool[RANGES];
    struct request *r[RANGES] = {NULL};
    size_t from = 0, busy = 0;
    int rc = 0;
    for (bool more = true; more || busy;) {
        for (size_t i = 0; i < RANGES; i++)
            if (!r[i] && more && (more = !rc && next_range(&pool[i], &range, &n, &from)))
                r[i] = &pool[i], busy++;
        if (busy) drive(r, RANGES, busy - 1);
        for (size_t i = 0; i < RANGES; i++) {
            if (!r[i] || !r[i]->done) continue;
            /* after a failure, requests under way are finished and no new ones begin */
            if (r[i]->failed) rc = failed(r[i]->url, r[i], "read");
            r[i] = NULL, busy--;
        }
    }
    return rc;
}

/* ---- uploads in parts ------------------------------------------------------------------------ */

struct upload {
    struct files_out out;
    char *s3, *id; /* id: the upload's id, escaped for a URL; NULL: no part was sent yet */
    uint8_t *buf[PARTS];
    struct request r[PARTS], *busy[PARTS];
    uint32_t number[PARTS], n_parts;
    size_t now, filled; /* number of the buffer that is being filled; bytes in it */
    char **etag;        /* [n_parts] */
};

static int create(const char *s3, struct files_out **out) {
    struct upload *u = tool_need(calloc(1, sizeof *u));
    u->out.ops = &files_s3;
    u->s3 = tool_need(strdup(s3));
    *out = &u->out;
    return 0;
}

static void destroy(struct upload *u) {
    for (size_t i = 0; i < PARTS; i++) free(u->buf[i]), free(u->r[i].to);
    for (uint32_t i = 0; i < u->n_parts; i++) free(u->etag[i]);
    free(u->etag), free(u->id), free(u->s3), free(u);
}

/* Takes the results of sent parts, and waits until at most `left` parts are under way. */
static int settle(struct upload *u, size_t left) {
    int rc = 0;
    drive(u->busy, PARTS, left);
    for (size_t i = 0; i < PARTS; i++) {
        struct request *r = u->busy[i];
        if (!r || !r->done) continue;
        if (r->failed) rc = failed(u->s3, r, "upload of a part");
        else u->etag[u->number[i]] = tool_need(strdup(r->etag));
        free(r->to), r->to = NULL;
        u->busy[i] = NULL;
    }
    return rc;
}

static int begin(struct upload *u) {
    struct request r = {.method = "POST"};
    address(&r, u->s3, false, "uploads=");
    int rc = ask(u->s3, &r, "begin of an upload");
    const char *id = !rc && r.to ? strstr((char *)r.to, "<UploadId>") : NULL;
    if (id) {
        char plain[1024], escaped[NAME];
        snprintf(plain, sizeof plain, "%.*s", (int)strcspn(id + 10, "<"), id + 10);
        escape(escaped, escaped + sizeof escaped, plain, "");
        u->id = tool_need(strdup(escaped));
    } else if (!rc) rc = files_fail("%s: begin of an upload: no UploadId in the answer", u->s3);
    free(r.to);
    return rc;
}

static int send_part(struct upload *u) {
    char query[NAME];
    size_t i = u->now;
    if (!u->id && begin(u)) return -1;
    u->etag = tool_need(realloc(u->etag, (u->n_parts + 1) * sizeof *u->etag));
    u->etag[u->n_parts] = NULL;
    u->number[i] = u->n_parts++;
    snprintf(query, sizeof query, "partNumber=%u&uploadId=%s", u->n_parts, u->id);
    u->r[i] = (struct request){.method = "PUT", .body = u->buf[i], .body_n = u->filled};
    address(&u->r[i], u->s3, false, query);
    u->busy[i] = &u->r[i];
    u->filled = 0;
    if (settle(u, PARTS - 1)) return -1;
    for (u->now = 0; u->busy[u->now]; u->now++) continue;
    return 0;
}

static int write_(struct files_out *o, const void *from, size_t n) {
    struct upload *u = (struct upload *)(void *)o;
    for (size_t done = 0, k; done < n; done += k) {
        if (u->filled == RANGE && send_part(u)) return -1;
        if (!u->buf[u->now]) u->buf[u->now] = tool_need(malloc(RANGE));
        k = n - done < RANGE - u->filled ? n - done : RANGE - u->filled;
        memcpy(u->buf[u->now] + u->filled, (const uint8_t *)from + done, k);
        u->filled += k;
    }
    return 0;
}

static void abort_(struct files_out *o) {
    struct upload *u = (struct upload *)(void *)o;
    (void)settle(u, 0);
    if (u->id) {
        char query[NAME];
        struct request r = {.method = "DELETE"};
        snprintf(query, sizeof query, "uploadId=%s", u->id);
        address(&r, u->s3, false, query);
        struct request *one = &r;
        drive(&one, 1, 0); /* if this request fails, sweep() will abort the upload */
        free(r.to);
    }
    destroy(u);
}

static int complete(struct upload *u) {
    char query[NAME], *body = NULL;
    size_t n;
    FILE *f = tool_need(open_memstream(&body, &n));
    fputs("<CompleteMultipartUpload>", f);
    for (uint32_t i = 0; i < u->n_parts; i++)
        fprintf(f, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", i + 1, u->etag[i]);
    fputs("</CompleteMultipartUpload>", f);
    fclose(f);
    struct request r = {.method = "POST", .body = (uint8_t *)body, .body_n = n};
    snprintf(query, sizeof query, "uploadId=%s", u->id);
    address(&r, u->s3, false, query);
    int rc = ask(u->s3, &r, "end of an upload");
    free(r.to), free(body);
    return rc;
}

static int commit(struct files_out *o) {
    struct upload *u = (struct upload *)(void *)o;
    int rc;
    if (!u->id) { /* the whole object fits into one request */
        struct request r = {.method = "PUT", .body = u->buf[0], .body_n = u->filled};
        address(&r, u->s3, false, NULL);
        rc = ask(u->s3, &r, "write");
        free(r.to);
    } else {
        rc = u->filled && send_part(u) ? -1 : settle(u, 0);
        if (!rc) rc = complete(u);
    }
    if (rc) abort_(o);
    else destroy(u);
    return rc;
}

/* Aborts the unfinished uploads below a prefix. */
static int sweep(const char *s3) {
    char query[NAME], prefix[NAME];
    const char *key = strchr(s3 + 5, '/');
    struct request r = {.method = "GET"};
    escape(prefix, prefix + sizeof prefix, key ? key + 1 : "", "");
    snprintf(query, sizeof query, "prefix=%.3000s%spart-&uploads=", prefix, *prefix ? "%2F" : "");
    address(&r, s3, true, query);
    int rc = ask(s3, &r, "list of uploads");
    for (const char *at = (char *)r.to; !rc && at && (at = strstr(at, "<Upload>")); at++) {
        const char *name = strstr(at, "<Key>"), *id = strstr(at, "<UploadId>");
        if (!name || !id || strcspn(name, "&") < strcspn(name + 1, "<")) continue;
        char object[NAME], escaped[NAME];
        snprintf(object, sizeof object, "%.*s", (int)strcspn(id + 10, "<"), id + 10);
        escape(escaped, escaped + sizeof escaped, object, "");
        snprintf(object, sizeof object, "%.*s/%.*s", key ? (int)(key - s3) : (int)strlen(s3), s3,
                 (int)strcspn(name + 5, "<"), name + 5);
        struct request one = {.method = "DELETE"};
        snprintf(query, sizeof query, "uploadId=%.3000s", escaped);
        address(&one, object, false, query);
        rc = ask(object, &one, "abort of an upload");
        free(one.to);
    }
    free(r.to);
    return rc;
}

const struct files_ops files_s3 = {"s3://", size,   read_,  NULL, create,
                                   write_,  commit, abort_, sweep};
#else
typedef int files_s3_needs_libcurl;
#endif
