#include "engine/json_text.h"

#include "base/mem.h"

json_t *fn_json_u64(uint64_t value) {
    return json_integer(value <= INT64_MAX ? (json_int_t)value : INT64_MAX);
}

json_t *fn_json_numbers(const fn_json_number *numbers, size_t n) {
    json_t *object = json_object();
    for (size_t i = 0; i < n; i++) {
        fn_json_set(&object, numbers[i].name, fn_json_u64(numbers[i].value));
    }
    return object;
}

static void drop_if(int failed, json_t **value) {
    if (failed != 0) {
        json_decref(*value);
        *value = NULL;
    }
}

void fn_json_set(json_t **object, const char *key, json_t *value) {
    drop_if(json_object_set_new(*object, key, value), object);
}

void fn_json_append(json_t **array, json_t *value) {
    drop_if(json_array_append_new(*array, value), array);
}

typedef struct sink {
    char *text;
    size_t n, capacity;
    bool failed; /* jansson forgets a failure while it writes a key */
} sink;

static int take(const char *bytes, size_t n, void *ud) {
    sink *s = ud;
    void *grown = s->text;
    if (s->failed || !fn_grow(&grown, &s->capacity, s->n + n + 1, 1)) {
        s->failed = true;
        return -1;
    }
    s->text = grown;
    for (size_t i = 0; i < n; i++) {
        s->text[s->n++] = bytes[i];
    }
    s->text[s->n] = '\0';
    return 0;
}

fn_status fn_json_take_text(json_t *value, char **text, fn_error *err) {
    sink s = {0};
    *text = NULL;
    bool made = value != NULL && json_dump_callback(value, take, &s, JSON_COMPACT) == 0;
    json_decref(value);
    if (!made || s.failed || s.text == NULL) {
        fn_free(s.text);
        return fn_fail_nomem(err, "a JSON text", s.n);
    }
    *text = s.text;
    return FN_OK;
}
