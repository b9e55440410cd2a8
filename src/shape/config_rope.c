/* Rotary positions: the new spelling and the old one, where a value of rope_scaling goes before one
 * of rope_parameters, and both before a key of the text config itself. */
#include <string.h>

#include "shape/config_parts.h"

typedef struct rope_sources {
    json_t *at[3]; /* in the order in which they are asked; NULL where there is none */
} rope_sources;

static json_t *find(const rope_sources *from, const char *key) {
    for (size_t i = 0; i < 3; i++) {
        json_t *value = json_object_get(from->at[i], key);
        if (value != NULL && !json_is_null(value)) {
            return value;
        }
    }
    return NULL;
}

static double find_positive(fn_config_reader *r, const rope_sources *from, const char *key) {
    double value = 0.0;
    for (size_t i = 0; i < 3 && value <= 0.0 && r->status == FN_OK; i++) {
        value = from->at[i] != NULL ? fn_reader_positive(r, from->at[i], key) : 0.0;
    }
    return value;
}

static void check_type(fn_config_reader *r, const rope_sources *from) {
    for (size_t i = 0; i < 2; i++) {
        const json_t *type = json_object_get(from->at[i], "rope_type");
        if (type == NULL || json_is_null(type)) {
            type = json_object_get(from->at[i], "type");
        }
        if (type == NULL || json_is_null(type)) {
            continue;
        }
        const char *name = json_string_value(type);
        if (name == NULL || strcmp(name, "default") != 0) {
            fn_reader_fail_found(r, "rope_parameters.rope_type", type, "\"default\"");
        }
    }
}

static void read_rotary(fn_config_reader *r, const rope_sources *from, fn_shape *s) {
    double factor = find_positive(r, from, "partial_rotary_factor");
    if (r->status != FN_OK) {
        return;
    }
    if (factor <= 0.0) {
        factor = 1.0; /* absent */
    }
    if (factor > 1.0) {
        fn_reader_fail(r, "partial_rotary_factor", "found %g, expected at most 1", factor);
        return;
    }
    s->rotary = (size_t)((double)s->head_dim * factor);
    if (s->rotary < 2 || s->rotary % 2 != 0) {
        fn_reader_fail(r, "partial_rotary_factor",
                       "found %g, which rotates %zu of head_dim %zu; expected an even number of "
                       "at least 2",
                       factor, s->rotary, s->head_dim);
    }
}

/* The reference gives pair i to height where i % 3 = 1 and i < 3 * s1, to width where i % 3 = 2 and
 * i < 3 * s2, else to time, and cuts off what lies beyond the last pair: sections may be too large,
 * as the default is for small heads. Too small ones leave pairs that nobody claimed. */
static void read_sections(fn_config_reader *r, const rope_sources *from, fn_shape *s) {
    static const size_t standard[3] = {11, 11, 10};
    static const char key[] = "mrope_section";
    const json_t *sections = find(from, key);
    size_t sum = 0;
    memcpy(s->mrope_section, standard, sizeof standard);
    if (sections == NULL) {
        return;
    }
    if (!json_is_array(sections) || json_array_size(sections) != 3) {
        fn_reader_fail_found(r, key, sections, "an array of 3 integers");
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        const json_t *section = json_array_get(sections, i);
        json_int_t value = json_integer_value(section);
        if (!json_is_integer(section) || value < 0 || value > 1 << 20) {
            fn_reader_fail_found(r, key, sections, "3 numbers of rotating pairs");
            return;
        }
        s->mrope_section[i] = (size_t)value;
        sum += (size_t)value;
    }
    if (sum < s->rotary / 2) {
        fn_reader_fail(r, key, "found %zu pairs in all, expected the %zu that rotate", sum,
                       s->rotary / 2);
    }
}

void fn_config_read_rope(fn_config_reader *r, fn_shape *s) {
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    rope_sources from = {.at = {NULL, NULL, r->config->text}};
    if (r->status != FN_OK) {
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        from.at[i] = fn_reader_value(r, keys[i]);
        if (from.at[i] != NULL && !json_is_object(from.at[i])) {
            fn_reader_fail_found(r, keys[i], from.at[i], "an object");
            return;
        }
    }
    check_type(r, &from);
    s->rope_theta = find_positive(r, &from, "rope_theta");
    if (r->status == FN_OK && s->rope_theta <= 0.0) {
        fn_reader_fail_missing(r, "rope_parameters.rope_theta");
    }
    read_rotary(r, &from, s);
    if (r->status == FN_OK) {
        read_sections(r, &from, s);
    }
}
