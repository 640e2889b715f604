/* resources.h - types only: amounts of resources, what a task or an actor needs of where it runs,
 * and the nodes that there are. */
#ifndef SK_RESOURCES_H
#define SK_RESOURCES_H

#include "engine/value.h"

/* A shape is an interned set of amounts. Amounts are in 1/10,000 of a unit (cpu, gpu, custom) or
 * bytes (memory). */
enum { SK_RES_CPU = 0, SK_RES_GPU = 1, SK_RES_MEMORY = 2, SK_RES_CUSTOM = 3, SK_RES_MAX = 16 };
#define SK_RES_UNIT 10000
struct sk_res {
    int64_t amount[SK_RES_MAX]; /* [SK_RES_CUSTOM..]: by the engine's table of names */
};
/* Of a custom resource that has no place in sk_res: there are many, and what asks for them is
 * seldom. */
struct sk_amount {
    uint64_t index; /* SK_RES_MAX and up, see custom.h */
    int64_t amount;
};
/* All that a task or an actor needs of where it runs. A shape stands for one of these. */
struct sk_need {
    struct sk_res res;
    uint64_t group; /* placement group, 0: none */
    int32_t bundle; /* of it; -1: any */
    uint32_t env;   /* environment of the process (envs.h), 0: the job's */
    /* not 0: what it submits goes to the group, too (said to the task; who submits does it) */
    uint32_t capture;
    uint32_t more; /* further custom resources (custom.h), 0: none; not in a group */
};
/* names no other need later on: that of a removed placement group stays SK_EGROUP */
typedef uint32_t sk_shape;

/* A machine that tasks run on and objects lie on. Bytes of objects are in memory (resident), on its
 * disk only, or promised: so much of its capacity will be taken by what was allocated and is not
 * sealed yet. An engine whose objects never leave memory has disk_limit_bytes 0: then a full node
 * is an error. */
struct sk_node {
    /* as in events and in sk_task_spec.node; never 0, never used again for another one */
    uint32_t number;
    bool alive;
    char name[64]; /* for messages */
    struct sk_res total, free;
    uint64_t capacity_bytes; /* memory for objects */
    uint64_t resident_bytes, disk_bytes, promised_bytes;
    uint64_t disk_limit_bytes; /* UINT64_MAX: as much as there is */
};

#endif
