/* real_lineage.c - lineage.c with functions that save and load its state (contract: real.h).
 *
 * Invariant: save(load(f)) = f between drains, when no entry is doomed, planned, brought back or
 * free. Orders that decide what is dropped first (age, returns of a task, uses of an object) are
 * saved. `n_evicted` is only a statistic and is left out. */
#include "engine/own/lineage.c" /* NOLINT: its structs are needed */
#include "real.h"

#include "test.h"

static void forget_all(struct sk_lineage *l) {
    uint64_t key;
    void *val;
    CHECK(!l->doomed && !l->free_head && !l->back_head && sk_list_empty(&l->todo));
    for (uint32_t i = 0; sk_map_next(&l->tasks, &i, &key, &val);) sk_free(val);
    for (uint32_t i = 0; sk_map_next(&l->objs, &i, &key, &val);) sk_pool_put(&l->pool, val);
    sk_map_clear(&l->tasks);
    sk_map_clear(&l->objs);
    sk_list_init(&l->aged);
    l->bytes = 0;
}

void real_lin_load(struct sk_lineage *l, const struct flat_lin *f) {
    struct obj *obj[MO] = {0};
    struct task *task[MT] = {0};
    forget_all(l);
    CHECK(reserve(l, MO));
    for (uint32_t k = 0; k < MO; k++) {
        const struct flat_lin_obj *x = &f->obj[k];
        if (!x->there) continue;
        obj[k] = obj_new(l, k + 1);
        obj[k]->alive = x->alive;
        obj[k]->said = x->said;
        obj[k]->why = x->why;
        obj[k]->culprit = x->culprit;
    }
    for (uint32_t i = 0; i < f->n_aged; i++) {
        uint32_t k = f->aged[i] - 1u;
        const struct flat_lin_task *x = &f->task[k];
        struct task *t = task[k] = sk_alloc(SK_TAG_ENGINE, sizeof *t + MA * sizeof t->arg[0]);
        CHECK(t);
        *t = (struct task){.id = k + 1,
                           .data = (void *)(uintptr_t)(k + 1),
                           .bytes = x->bytes,
                           .retries = (int8_t)x->retries,
                           .open = x->open,
                           .running = x->running,
                           .n_args = x->n_args};
        sk_list_init(&t->todo);
        sk_list_init(&t->returns);
        CHECK_OK(sk_map_put(&l->tasks, k + 1, t));
        sk_list_push_back(&l->aged, &t->age);
        l->bytes += t->bytes;
        for (uint32_t j = 0; j < x->n_args; j++)
            t->arg[j] = (struct edge){.obj = obj[x->args[j] - 1], .task = t};
        for (uint32_t j = 0; j < x->n_returns; j++) {
            struct obj *o = obj[x->returns[j] - 1];
            o->maker = t;
            sk_list_push_back(&t->returns, &o->sib);
            t->n_needed++;
        }
    }
    for (uint32_t k = 0; k < MO; k++)
        for (uint32_t j = 0; obj[k] && j < f->obj[k].n_uses; j++)
            sk_list_push_back(&obj[k]->uses,
                              &task[f->obj[k].use_task[j] - 1]->arg[f->obj[k].use_arg[j]].link);
}

void real_lin_save(const struct sk_lineage *l, struct flat_lin *f) {
    uint64_t id;
    void *val;
    CHECK(!l->doomed && !l->free_head && !l->back_head && sk_list_empty(&l->todo));
    memset(f, 0, sizeof *f);
    SK_LIST_EACH (it, &l->aged) {
        const struct task *t = sk_container_of(it, struct task, age);
        struct flat_lin_task *x = &f->task[t->id - 1];
        CHECK(t->id <= MT && t->n_args <= MA && t->bytes < 256);
        *x = (struct flat_lin_task){.kept = 1,
                                    .open = t->open,
                                    .running = t->running,
                                    .bytes = (uint8_t)t->bytes,
                                    .retries = (uint8_t)t->retries,
                                    .n_args = (uint8_t)t->n_args};
        f->aged[f->n_aged++] = (uint8_t)t->id;
        for (uint32_t j = 0; j < t->n_args; j++) x->args[j] = (uint8_t)t->arg[j].obj->id;
        SK_LIST_EACH (r, &t->returns) {
            CHECK(x->n_returns < SK_COUNT(x->returns));
            x->returns[x->n_returns++] = (uint8_t)sk_container_of(r, struct obj, sib)->id;
        }
    }
    for (uint32_t i = 0; sk_map_next(&l->objs, &i, &id, &val);) {
        const struct obj *o = val;
        struct flat_lin_obj *x = &f->obj[id - 1];
        CHECK(id <= MO);
        *x = (struct flat_lin_obj){.there = 1,
                                   .alive = o->alive,
                                   .said = o->said,
                                   .why = o->said ? o->why : 0,
                                   .culprit = (uint8_t)(o->said ? o->culprit : 0)};
        SK_LIST_EACH (it, &o->uses) {
            const struct edge *e = sk_container_of(it, struct edge, link);
            CHECK(x->n_uses < MU);
            x->use_task[x->n_uses] = (uint8_t)e->task->id;
            x->use_arg[x->n_uses++] = (uint8_t)(e - e->task->arg);
        }
    }
}
