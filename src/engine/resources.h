/* resources.h - types only: amounts of resources, what a task or an actor needs of the place
 * where it runs, and nodes. */
#ifndef SK_RESOURCES_H
#define SK_RESOURCES_H

#include "engine/value.h"

/* Amounts of resources, in 1/10,000 of a unit (CPU, GPU, custom) or in bytes (memory). */
enum { SK_RES_CPU = 0, SK_RES_GPU = 1, SK_RES_MEMORY = 2, SK_RES_CUSTOM = 3, SK_RES_MAX = 16 };
#define SK_RES_UNIT 10000
struct sk_res {
    /* from [SK_RES_CUSTOM] on: custom resources by their index (custom.h) */
    int64_t amount[SK_RES_MAX];
};
/* An amount of a custom resource that has no place in sk_res: there may be many such resources,
 * and few tasks ask for them. */
struct sk_amount {
    uint64_t index; /* SK_RES_MAX and up, see custom.h */
    int64_t amount;
};
/* All needs of a task or an actor at the place where it runs. A shape is the number of such a
 * need. */
#define SK_WHERE_HERE UINT32_MAX
struct sk_need {
    struct sk_res res;
    uint64_t group; /* placement group, 0: none */
    int32_t bundle; /* index of the bundle in the group; -1: any */
    uint32_t env;   /* environment of the process (envs.h), 0: the job's */
    /* nodes that it may run on (cluster/wheres.h), 0: any; SK_WHERE_HERE: the one of this engine,
     * and no other */
    uint32_t where;
    /* not 0: tasks that this task submits run in the same group. The engine passes this to the
     * task; the code that submits tasks has to set their group. */
    uint32_t capture;
    /* number of a set of further custom resources (custom.h); 0: none; not in a group */
    uint32_t more;
};
/* The number of a need. A number is never used for another need: the number of a need in a removed
 * placement group gives SK_EGROUP from then on. */
typedef uint32_t sk_shape;

/* What a node does; 0: not known. Bytes are those written to and read from disk so far. */
struct sk_load {
    uint32_t workers, running, queued; /* tasks: those that run, those that wait for a worker */
    uint32_t sent;                     /* of a cluster: tasks that the driver has sent there */
    uint64_t done, failed, objects, spilled_bytes, restored_bytes;
};

/* A machine on which tasks run and objects lie. Bytes of objects are resident (in memory), on
 * disk only, or promised: allocated from the capacity and not sealed yet. If objects never leave
 * memory, disk_limit_bytes is 0; then a full node is an error. */
struct sk_node {
    /* The number that events and sk_task_spec.node use. It is never 0, and never used again for
     * another node. */
    uint32_t number;
    bool alive, draining; /* draining: it gets no new task, and goes away (cluster/nodes.h) */
    char name[64];        /* for messages */
    struct sk_res total, free;
    uint64_t capacity_bytes; /* memory for objects */
    uint64_t resident_bytes, disk_bytes, promised_bytes;
    /* most bytes of objects on disk; UINT64_MAX: no limit but the disk's size */
    uint64_t disk_limit_bytes;
    struct sk_load load;
    struct sk_bytes labels; /* (cluster/wheres.h); they stay where they are until the engine ends */
};

#endif
