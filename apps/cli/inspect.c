#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/commands.h"
#include "cli/json_get.h"
#include "cli/model.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "flashnext_tools.h"

/* ---- tensors, those alike in one line --------------------------------------------------- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* "model.layers.3.mlp.gate.weight" -> "model.layers.*.mlp.gate.weight": a number between dots or
 * behind an underscore counts things of one kind. */
static void add_pattern(cli_buffer *out, const char *name) {
    for (const char *at = name; *at != 0;) {
        size_t digits = strspn(at, "0123456789");
        bool behind = at > name && (at[-1] == '.' || at[-1] == '_');
        bool counts = digits > 0 && behind && (at[digits] == '.' || at[digits] == 0);
        if (counts) {
            cli_buffer_puts(out, "*");
            at += digits;
        } else {
            do {
                cli_buffer_add(out, at++, 1);
            } while (*at != 0 && (!is_digit(*at) || is_digit(at[-1])));
        }
    }
}

static void add_shape(cli_buffer *out, const json_t *shape) {
    cli_buffer_puts(out, "[");
    for (size_t i = 0; i < json_array_size(shape); i++) {
        cli_buffer_printf(out, "%s%lld", i > 0 ? "," : "",
                          (long long)json_integer_value(json_array_get(shape, i)));
    }
    cli_buffer_puts(out, "]");
}

/* {"pattern\ndtype shape": {count, bytes}} in the order in which they were met. */
static json_t *group_tensors(const json_t *tensors) {
    json_t *groups = json_object();
    cli_buffer key = {0};
    size_t i = 0;
    const json_t *tensor = NULL;
    json_array_foreach(tensors, i, tensor) {
        cli_buffer_clear(&key);
        add_pattern(&key, cli_json_text(tensor, "name"));
        cli_buffer_printf(&key, "\n%-5s ", cli_json_text(tensor, "dtype"));
        add_shape(&key, json_object_get(tensor, "shape"));
        json_t *group = json_object_get(groups, cli_buffer_text(&key));
        if (group == NULL) {
            group = json_pack("{s:i, s:i}", "count", 0, "bytes", 0);
            (void)json_object_set_new(groups, cli_buffer_text(&key), group);
        }
        json_int_t count = (json_int_t)cli_json_whole(group, "count") + 1;
        json_int_t bytes = (json_int_t)cli_json_whole(group, "bytes");
        bytes += (json_int_t)cli_json_whole(tensor, "bytes");
        (void)json_object_set_new(group, "count", json_integer(count));
        (void)json_object_set_new(group, "bytes", json_integer(bytes));
    }
    cli_buffer_free(&key);
    return groups;
}

static void print_tensors(const json_t *root) {
    json_t *groups = group_tensors(cli_json_at(root, "tensors"));
    const char *key = NULL;
    json_t *group = NULL;
    char bytes[32];
    printf("\n%zu tensors, %s; a * stands for numbers\n",
           json_array_size(cli_json_at(root, "tensors")),
           cli_bytes(cli_json_whole(root, "bytes"), bytes, sizeof bytes));
    json_object_foreach(groups, key, group) {
        const char *kind = strchr(key, '\n');
        printf("  %6llu x %-26s %12s  %.*s\n", (unsigned long long)cli_json_whole(group, "count"),
               kind + 1, cli_bytes(cli_json_whole(group, "bytes"), bytes, sizeof bytes),
               (int)(kind - key), key);
    }
    json_decref(groups);
}

/* ---- files and dimensions --------------------------------------------------------------- */

static void print_files(json_t *root) {
    const json_t *files = cli_json_at(root, "files");
    char bytes[32];
    printf("%s: %zu file%s\n", cli_json_text(root, "model_dir"), json_array_size(files),
           json_array_size(files) == 1 ? "" : "s");
    size_t i = 0;
    const json_t *file = NULL;
    json_array_foreach(files, i, file) {
        printf("  %12s  %s\n", cli_bytes(cli_json_whole(file, "bytes"), bytes, sizeof bytes),
               cli_json_text(file, "name"));
    }
    const char *dtype = NULL;
    json_t *format = NULL;
    puts("\nFormats");
    json_object_foreach(json_object_get(root, "formats"), dtype, format) {
        printf("  %-6s %12s in %llu tensors\n", dtype,
               cli_bytes(cli_json_whole(format, "bytes"), bytes, sizeof bytes),
               (unsigned long long)cli_json_whole(format, "tensors"));
    }
}

/* Lists as "delta x3, attention, ..." or as numbers. */
static void print_list(const json_t *list) {
    for (size_t i = 0; i < json_array_size(list);) {
        const json_t *item = json_array_get(list, i);
        size_t same = 1;
        while (json_is_string(item) && json_equal(item, json_array_get(list, i + same))) {
            same++;
        }
        fputs(i > 0 ? ", " : "", stdout);
        if (json_is_string(item)) {
            fputs(json_string_value(item), stdout);
        } else {
            printf("%lld", (long long)json_integer_value(item));
        }
        if (same > 1) {
            printf(" x%zu", same);
        }
        i += same;
    }
}

static void print_ngram(json_t *root) {
    const json_t *ngram = cli_json_at(root, "ngram");
    const json_t *cached = cli_json_at(ngram, "cached_bytes");
    char bytes[32];
    if (!json_is_object(ngram)) {
        return;
    }
    printf("\nN-gram table\n  %s in rows of %llu bytes",
           cli_bytes(cli_json_whole(ngram, "bytes"), bytes, sizeof bytes),
           (unsigned long long)cli_json_whole(ngram, "row_bytes"));
    if (json_is_integer(cached)) {
        printf(", %s of it in the page cache",
               cli_bytes(cli_json_whole(ngram, "cached_bytes"), bytes, sizeof bytes));
    }
    putchar('\n');
}

static void print_object(const char *title, json_t *object) {
    const char *key = NULL;
    json_t *value = NULL;
    printf("\n%s\n", title);
    json_object_foreach(object, key, value) {
        printf("  %-18s ", key);
        if (json_is_boolean(value)) {
            fputs(json_is_true(value) ? "yes" : "no", stdout);
        } else if (json_is_array(value)) {
            print_list(value);
        } else if (json_is_string(value)) {
            fputs(json_string_value(value), stdout);
        } else {
            printf("%lld", (long long)json_integer_value(value));
        }
        putchar('\n');
    }
}

/* What was read, and what was not. */
static void print_checked(const json_t *root) {
    const char *ngram = cli_json_text(cli_json_at(root, "prepared"), "ngram");
    bool linked = strcmp(ngram, "link") == 0;
    printf("\nChecked: every byte of this directory is what was written%s\n",
           linked ? "; the linked n-gram table can be read and holds numbers" : "");
}

static fn_status check(const cli_options *options, const char *dir, fn_error *err) {
    cli_progress progress;
    cli_signals_catch();
    cli_progress_init(&progress, options);
    fn_status status = fn_inspect_check(dir, cli_progress_step, &progress, err);
    cli_progress_clear(&progress);
    return status;
}

int cli_inspect(const cli_options *options) {
    fn_error err = {0};
    char *dir = NULL;
    char *json = NULL;
    fn_status status = cli_model_dir(options, &dir, &err);
    if (status == FN_OK) {
        status = fn_inspect(dir, &json, &err);
    }
    if (status == FN_OK && cli_flag(options, CLI_OPT_CHECK)) {
        status = check(options, dir, &err);
    }
    int code = cli_report_model(status, &err);
    if (status == FN_OK && cli_flag(options, CLI_OPT_JSON)) {
        puts(json);
    } else if (status == FN_OK) {
        json_error_t at;
        json_t *root = json_loads(json, 0, &at);
        print_files(root);
        print_ngram(root);
        if (json_is_object(json_object_get(root, "prepared"))) {
            print_object("Prepared", json_object_get(root, "prepared"));
        }
        print_object("Shape", json_object_get(root, "shape"));
        print_object("Numbers by class", json_object_get(root, "params"));
        print_tensors(root);
        if (cli_flag(options, CLI_OPT_CHECK)) {
            print_checked(root);
        }
        json_decref(root);
    }
    fn_string_free(json);
    free(dir);
    return code;
}
