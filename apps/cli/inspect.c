#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/model.h"
#include "cli/report.h"
#include "flashnext_tools.h"

int cli_inspect(const cli_options *options) {
    fn_error err = {0};
    char *dir = NULL;
    char *json = NULL;
    fn_status status = cli_model_dir(options, &dir, &err);
    if (status == FN_OK) {
        status = fn_inspect(dir, &json, &err);
    }
    int code = cli_report_model(status, &err);
    if (status == FN_OK) {
        puts(json);
    }
    fn_string_free(json);
    free(dir);
    return code;
}
