/* checkpoint/shard_index.h - which files a checkpoint consists of, and whether its index is true.
 *
 * Path:    directory -> [this: sorted file names, model.safetensors.index.json] -> checkpoint.c.
 * Memory:  lists own their names; the index owns its JSON. */
#ifndef FN_CHECKPOINT_SHARD_INDEX_H
#define FN_CHECKPOINT_SHARD_INDEX_H

#include <jansson.h>
#include <stddef.h>

#include "base/status.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor.h"

#define FN_INDEX_NAME "model.safetensors.index.json"

typedef struct fn_shard_list {
    char **names; /* without the folder, sorted */
    size_t n, capacity;
} fn_shard_list;

/* All "*.safetensors" files of dir that are not hidden. Fails with FN_E_MODEL when there are none
 * or when numbered ones ("-00002-of-00004") have a hole. */
FN_NODISCARD fn_status fn_shard_list_read(const char *dir, fn_shard_list *out, fn_error *err);
void fn_shard_list_free(fn_shard_list *list);

typedef struct fn_shard_index {
    json_t *root;
    json_t *map; /* {tensor: file}; NULL when the directory has no index */
    char *path;
} fn_shard_index;

/* Reads dir's index if there is one and checks that every file it names is in `files`. */
FN_NODISCARD fn_status fn_shard_index_read(const char *dir, const fn_shard_list *files,
                                           fn_shard_index *out, fn_error *err);
/* Checks that the index and the headers of dir's files [n_files] say the same; tensors [n] are sorted by name, and
 * those of other files, which follow, are none of the index's. */
FN_NODISCARD fn_status fn_shard_index_check(const fn_shard_index *index, const char *dir,
                                            const fn_safetensors *files, size_t n_files,
                                            const fn_tensor *tensors, size_t n, fn_error *err);
void fn_shard_index_free(fn_shard_index *index);

#endif
