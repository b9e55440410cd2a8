/* cli/json_get.h - values out of the library's JSON, by dotted path: "textbook.bytes.dense".
 *
 * Path:     fn_plan, fn_inspect, case.json, config.json -> [this] -> tables
 * Memory:   everything is lent by the root. */
#ifndef CLI_JSON_GET_H
#define CLI_JSON_GET_H

#include <jansson.h>
#include <stdint.h>

/* NULL if a part of the path is missing. */
const json_t *cli_json_at(const json_t *root, const char *path);
/* 0 if it is missing or no number. */
double cli_json_number(const json_t *root, const char *path);
uint64_t cli_json_whole(const json_t *root, const char *path);
/* "" if it is missing or no string. */
const char *cli_json_text(const json_t *root, const char *path);

#endif
