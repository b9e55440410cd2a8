/* A folder of shards: with an index, without one, and everything that can be wrong between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "checkpoint/checkpoint.h"
#include "support/check_error.h"
#include "support/make_checkpoint.h"

#define INDEX "model.safetensors.index.json"
#define SHARD_2 "model-00002-of-00003.safetensors"

static made_model tiny(made_layout layout) {
    made_model m;
    fn_shape shape = made_tiny_shape();
    made_model_init(&m, &shape, layout);
    return m;
}

static fn_checkpoint *open_ok(const made_model *m) {
    fn_checkpoint *c = NULL;
    fn_error err = {0};
    fn_status status = fn_checkpoint_open(m->dir, &c, &err);
    if (status != FN_OK) {
        print_error("%s\n", err.text);
    }
    assert_int_equal(status, FN_OK);
    return c;
}

#define check_open(m, ...)                                                                         \
    do {                                                                                           \
        fn_checkpoint *opened = NULL;                                                              \
        fn_error error = {0};                                                                      \
        fn_status result = fn_checkpoint_open((m)->dir, &opened, &error);                          \
        check_error(result, &error, FN_E_MODEL, __VA_ARGS__);                                      \
        assert_null(opened);                                                                       \
    } while (0)

static uint64_t digest_of(const fn_checkpoint *c) {
    uint64_t digest = 0;
    assert_int_equal(fn_checkpoint_digest(c, &digest, NULL), FN_OK);
    return digest;
}

static void one_file_index_and_scan_give_the_same_tensors(void **state) {
    (void)state;
    static const struct {
        size_t n_files;
        bool index;
    } forms[] = {{1, false}, {3, true}, {3, false}, {7, true}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        made_layout layout = made_plain_layout();
        layout.n_files = forms[i].n_files;
        layout.index = forms[i].index;
        made_model m = tiny(layout);
        made_write(&m);
        fn_checkpoint *c = open_ok(&m);
        assert_int_equal(fn_checkpoint_count(c), m.n);
        assert_int_equal(fn_checkpoint_files(c), forms[i].n_files);
        assert_string_equal(fn_checkpoint_dir(c), m.dir);
        for (size_t k = 0; k < m.n; k++) {
            char name[80];
            const fn_tensor *t = fn_checkpoint_find(c, m.tensors[k].name);
            assert_non_null(t);
            assert_string_equal(fn_dtype_name(t->dtype), m.tensors[k].dtype);
            assert_int_equal(t->n_dims, m.tensors[k].n_dims);
            assert_memory_equal(t->dims, m.tensors[k].dims, t->n_dims * sizeof t->dims[0]);
            made_file_name(&m, m.tensors[k].file, name, sizeof name);
            assert_string_equal(fn_checkpoint_file_name(c, t->file), name);
        }
        fn_checkpoint_close(c);
        made_model_free(&m);
    }
}

static void lower_bound_finds_where_a_prefix_starts(void **state) {
    (void)state;
    made_model m = tiny(made_plain_layout());
    made_write(&m);
    fn_checkpoint *c = open_ok(&m);
    size_t i = fn_checkpoint_lower_bound(c, "model.layers.1.");
    assert_true(i > 0 && strncmp(fn_checkpoint_at(c, i)->name, "model.layers.1.", 15) == 0);
    assert_true(strncmp(fn_checkpoint_at(c, i - 1)->name, "model.layers.1.", 15) < 0);
    assert_int_equal(fn_checkpoint_lower_bound(c, ""), 0);
    assert_int_equal(fn_checkpoint_lower_bound(c, "zzz"), m.n);
    fn_checkpoint_close(c);
    made_model_free(&m);
}

/* Order within and across files is free: every tensor keeps its values. */
static void permuted_tensors_read_the_same(void **state) {
    (void)state;
    float a[2000];
    float b[2000];
    fn_error err = {0};
    made_model plain = tiny(made_plain_layout());
    made_write(&plain);
    fn_checkpoint *first = open_ok(&plain);
    for (size_t round = 1; round <= 4; round++) {
        made_model mixed = tiny(made_plain_layout());
        for (size_t i = mixed.n; i > 1; i--) { /* a fixed shuffle of order and of files */
            size_t k = (i * 7919 + round * 104729) % i;
            made_tensor swap = mixed.tensors[i - 1];
            mixed.tensors[i - 1] = mixed.tensors[k];
            mixed.tensors[k] = swap;
            mixed.tensors[i - 1].file = (i * round) % 3;
        }
        made_write(&mixed);
        fn_checkpoint *second = open_ok(&mixed);
        assert_int_equal(fn_checkpoint_count(second), fn_checkpoint_count(first));
        for (size_t i = 0; i < fn_checkpoint_count(first); i++) {
            const fn_tensor *t = fn_checkpoint_at(first, i);
            const fn_tensor *u = fn_checkpoint_at(second, i);
            size_t n = (size_t)t->bytes < sizeof a ? (size_t)t->bytes : sizeof a;
            assert_string_equal(t->name, u->name);
            assert_int_equal(t->bytes, u->bytes);
            assert_int_equal(fn_tensor_read(first, t, 0, a, n, &err), FN_OK);
            assert_int_equal(fn_tensor_read(second, u, 0, b, n, &err), FN_OK);
            assert_memory_equal(a, b, n);
        }
        assert_true(digest_of(first) != digest_of(second));
        fn_checkpoint_close(second);
        made_model_free(&mixed);
    }
    fn_checkpoint_close(first);
    made_model_free(&plain);
}

static void digest_follows_headers_and_not_the_folder(void **state) {
    (void)state;
    made_model a = tiny(made_plain_layout());
    made_model b = tiny(made_plain_layout());
    made_write(&a);
    made_write(&b);
    fn_checkpoint *first = open_ok(&a);
    fn_checkpoint *second = open_ok(&b);
    uint64_t digest = digest_of(first);
    assert_true(digest == digest_of(second));
    fn_checkpoint_close(second);
    made_find(&b, "dt_bias")->dtype = "F16"; /* the same bytes of another type */
    made_write(&b);
    second = open_ok(&b);
    assert_true(digest != digest_of(second));
    fn_checkpoint_close(second);
    fn_checkpoint_close(first);
    made_model_free(&a);
    made_model_free(&b);
}

static void missing_shards_are_listed(void **state) {
    (void)state;
    for (int pass = 0; pass < 2; pass++) { /* with and without an index */
        for (size_t gone = 0; gone < 3; gone++) {
            char name[80];
            char path[320];
            made_layout layout = made_plain_layout();
            layout.index = pass == 0;
            made_model m = tiny(layout);
            made_write(&m);
            made_file_name(&m, gone, name, sizeof name);
            made_path(&m, name, path, sizeof path);
            assert_int_equal(unlink(path), 0);
            check_open(&m, "1 file missing", "incomplete download?", name);
            made_model_free(&m);
        }
    }
}

static void many_missing_shards_are_counted(void **state) {
    (void)state;
    made_layout layout = made_plain_layout();
    layout.n_files = 20;
    made_model m = tiny(layout);
    made_write(&m);
    for (size_t i = 1; i < 20; i += 2) {
        char name[80];
        char path[320];
        made_file_name(&m, i, name, sizeof name);
        made_path(&m, name, path, sizeof path);
        assert_int_equal(unlink(path), 0);
    }
    check_open(&m, "10 files missing", "model-00002-of-00020.safetensors, model-00004", "...");
    made_model_free(&m);
}

static void truncated_shards_are_refused_with_both_sizes(void **state) {
    (void)state;
    made_model m = tiny(made_plain_layout());
    char found[80];
    made_write(&m);
    fn_checkpoint *c = open_ok(&m);
    unsigned long long bytes = fn_checkpoint_file_bytes(c, 1);
    fn_checkpoint_close(c);
    made_resize(&m, SHARD_2, -1);
    (void)snprintf(found, sizeof found, "found %llu bytes, expected %llu", bytes - 1, bytes);
    check_open(&m, SHARD_2, found, "incomplete download?");
    made_write(&m);
    made_resize(&m, SHARD_2, -(long)(bytes / 2));
    (void)snprintf(found, sizeof found, "found %llu bytes, expected %llu", bytes - bytes / 2,
                   bytes);
    check_open(&m, SHARD_2, found);
    made_write(&m);
    made_resize(&m, SHARD_2, -(long)(bytes - 100)); /* into the header */
    check_open(&m, SHARD_2, "header length", "in a file of 100 bytes");
    made_write(&m);
    made_resize(&m, SHARD_2, -(long)bytes);
    check_open(&m, SHARD_2, "found 0 bytes, expected at least 8");
    made_write(&m);
    made_resize(&m, SHARD_2, 1);
    check_open(&m, SHARD_2, "belong to no tensor");
    made_model_free(&m);
}

static void one_tensor_in_two_files_is_refused(void **state) {
    (void)state;
    made_layout layout = made_plain_layout();
    layout.index = false;
    made_model m = tiny(layout);
    made_tensor twin = *made_find(&m, "embed_tokens.weight");
    made_add(&m, twin.name, twin.dtype, twin.n_dims, twin.dims)->file = 2;
    made_write(&m);
    check_open(&m, "tensor model.embed_tokens.weight is in two files",
               "model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors");
    made_model_free(&m);
}

static void mapped_tensors_are_the_bytes_of_their_files(void **state) {
    (void)state;
    made_model m = tiny(made_plain_layout());
    made_write(&m);
    fn_checkpoint *c = open_ok(&m);
    size_t mapped = 0;
    assert_int_equal(fn_checkpoint_map(c, ".layers.1.", NULL), FN_OK);
    for (size_t i = 0; i < fn_checkpoint_count(c); i++) {
        const fn_tensor *t = fn_checkpoint_at(c, i);
        const uint8_t *view = fn_tensor_mapped(c, t);
        if (view == NULL) {
            assert_null(strstr(t->name, ".layers.1."));
            continue;
        }
        uint8_t *bytes = malloc((size_t)t->bytes + 1);
        assert_non_null(bytes);
        assert_int_equal(fn_tensor_read(c, t, 0, bytes, (size_t)t->bytes, NULL), FN_OK);
        assert_memory_equal(view, bytes, (size_t)t->bytes);
        assert_string_equal(fn_checkpoint_mapped_file(c, view),
                            fn_checkpoint_file_path(c, t->file));
        free(bytes);
        mapped++;
    }
    assert_true(mapped > 0 && mapped < fn_checkpoint_count(c));
    fn_checkpoint_close(c);
    made_model_free(&m);
}

/* Rewrites the index with one entry removed (file NULL), added or changed. */
static void edit_index(const made_model *m, const char *tensor, const char *file) {
    char path[320];
    made_path(m, INDEX, path, sizeof path);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    json_t *map = json_object_get(root, "weight_map");
    if (file == NULL) {
        assert_int_equal(json_object_del(map, tensor), 0);
    } else {
        json_object_set_new(map, tensor, json_string(file));
    }
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
}

static void index_and_headers_must_agree(void **state) {
    (void)state;
    made_model m = tiny(made_plain_layout());
    made_write(&m);
    edit_index(&m, "model.embed_tokens.weight", NULL);
    check_open(&m, INDEX ": omits tensor model.embed_tokens.weight",
               "model-00001-of-00003.safetensors");
    made_write(&m);
    edit_index(&m, "model.layers.9.norm.weight", SHARD_2);
    check_open(&m, INDEX ": names tensor model.layers.9.norm.weight", "in no file", SHARD_2);
    made_write(&m);
    edit_index(&m, "model.embed_tokens.weight", SHARD_2);
    char expected[400];
    char found[400];
    (void)snprintf(expected, sizeof expected, "expected in %s/" SHARD_2 ",", m.dir);
    (void)snprintf(found, sizeof found, "found in %s/model-00001-of-00003.safetensors", m.dir);
    check_open(&m, INDEX ": model.embed_tokens.weight: ", expected, found);
    made_write(&m);
    edit_index(&m, "model.embed_tokens.weight", "model-other.safetensors");
    check_open(&m, INDEX, "1 file missing", "model-other.safetensors");
    made_model_free(&m);
}

/* What is linked follows the files of the directory, and is none of its index's. */
static void an_index_does_not_speak_of_linked_files(void **state) {
    (void)state;
    made_layout alone = made_plain_layout();
    alone.index = false;
    made_model m = tiny(made_plain_layout());
    made_model other = tiny(alone);
    made_tensor *t = made_find(&other, "embed_tokens.weight");
    char path[400];
    char name[80];
    made_write(&m);
    (void)strcpy(t->name, "linked.weight");
    made_write(&other);
    made_file_name(&other, t->file, name, sizeof name);
    (void)snprintf(path, sizeof path, "%s/%s", other.dir, name);
    fn_linked_file link = {path, "linked."};
    fn_checkpoint *c = NULL;
    fn_error err = {0};
    if (fn_checkpoint_open_linked(m.dir, &link, 1, &c, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    assert_non_null(fn_checkpoint_find(c, "linked.weight"));
    fn_checkpoint_close(c);
    edit_index(&m, "linked.weight", SHARD_2);
    char found[500];
    (void)snprintf(found, sizeof found, "found in %s", path);
    check_error(fn_checkpoint_open_linked(m.dir, &link, 1, &c, &err), &err, FN_E_MODEL,
                "linked.weight: expected in", found);
    made_model_free(&other);
    made_model_free(&m);
}

static void index_that_is_no_index_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *word;
    } bad[] = {{"", "not valid JSON"},
               {"[]", "weight_map"},
               {"{\"weight_map\": []}", "weight_map"},
               {"{\"weight_map\": {\"a\": 3}}", "a: found an integer, expected a file"},
               {"{\"weight_map\": {\"a\": \"../x.safetensors\"}}", "../x.safetensors"},
               {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "/etc/passwd"},
               {"{\"weight_map\": {}}", "omits tensor"}};
    made_model m = tiny(made_plain_layout());
    made_write(&m);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        made_write_file(&m, INDEX, bad[i].text, strlen(bad[i].text));
        check_open(&m, INDEX, bad[i].word);
    }
    made_model_free(&m);
}

static void file_the_index_forgot_is_found(void **state) {
    (void)state;
    made_model m = tiny(made_plain_layout());
    static const char header[] =
        "{\"stray\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    char file[100] = {(char)(sizeof header - 1)};
    memcpy(file + 8, header, sizeof header - 1);
    made_write(&m);
    made_write_file(&m, "table.safetensors", file, 8 + sizeof header);
    check_open(&m, INDEX ": omits tensor stray", "table.safetensors");
    made_model_free(&m);
}

static void hidden_and_other_files_are_left_alone(void **state) {
    (void)state;
    made_model m = tiny(made_plain_layout());
    made_write(&m);
    made_write_file(&m, "._model-00001-of-00003.safetensors", "junk", 4);
    made_write_file(&m, "model.safetensors.part", "junk", 4);
    made_write_file(&m, ".safetensors", "junk", 4);
    made_write_file(&m, "pytorch_model.bin", "junk", 4);
    fn_checkpoint_close(open_ok(&m));
    made_model_free(&m);
}

static void numbers_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const char empty[] = "\2\0\0\0\0\0\0\0{}";
    made_layout layout = made_plain_layout();
    layout.n_files = 1;
    layout.index = false;
    made_model m = tiny(layout);
    made_write(&m);
    made_write_file(&m, "model-00004-of-00003.safetensors", empty, 10);
    check_open(&m, "found shard number 4 of 3");
    made_model_free(&m);
}

static void folders_without_a_model_are_refused(void **state) {
    (void)state;
    fn_checkpoint *c = NULL;
    fn_error err = {0};
    check_error(fn_checkpoint_open("/nonexistent", &c, &err), &err, FN_E_MODEL, "/nonexistent",
                "cannot open the model folder");
    made_layout layout = made_plain_layout();
    layout.n_files = 0;
    layout.index = false;
    made_model m = tiny(layout);
    made_write(&m);
    check_open(&m, "found no *.safetensors file");
    made_model_free(&m);
}

static void a_file_opened_by_path_needs_no_folder(void **state) {
    (void)state;
    char path[320];
    fn_checkpoint *c = NULL;
    fn_error err = {0};
    made_model m = tiny(made_plain_layout());
    made_write(&m);
    made_path(&m, SHARD_2, path, sizeof path);
    assert_int_equal(fn_checkpoint_open_file(path, &c, &err), FN_OK);
    assert_string_equal(fn_checkpoint_file_path(c, 0), path);
    assert_string_equal(fn_checkpoint_file_name(c, 0), SHARD_2);
    assert_string_equal(fn_checkpoint_dir(c), "");
    fn_checkpoint_close(c);
    made_model_free(&m);
    fn_checkpoint_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_file_index_and_scan_give_the_same_tensors),
        cmocka_unit_test(lower_bound_finds_where_a_prefix_starts),
        cmocka_unit_test(permuted_tensors_read_the_same),
        cmocka_unit_test(digest_follows_headers_and_not_the_folder),
        cmocka_unit_test(missing_shards_are_listed),
        cmocka_unit_test(many_missing_shards_are_counted),
        cmocka_unit_test(truncated_shards_are_refused_with_both_sizes),
        cmocka_unit_test(one_tensor_in_two_files_is_refused),
        cmocka_unit_test(mapped_tensors_are_the_bytes_of_their_files),
        cmocka_unit_test(index_and_headers_must_agree),
        cmocka_unit_test(an_index_does_not_speak_of_linked_files),
        cmocka_unit_test(index_that_is_no_index_is_refused),
        cmocka_unit_test(file_the_index_forgot_is_found),
        cmocka_unit_test(hidden_and_other_files_are_left_alone),
        cmocka_unit_test(numbers_that_cannot_be_are_refused),
        cmocka_unit_test(folders_without_a_model_are_refused),
        cmocka_unit_test(a_file_opened_by_path_needs_no_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
