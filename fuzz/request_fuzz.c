/* Bodies of POST requests: whatever comes, a request is complete or refused with a message in the API's shape.
 *
 * Input: a byte that picks the kind, the body. Run from the root: the tokenizer and template are models/demo's. */
#include <stdlib.h>
#include <string.h>

#include "server/fields.h"
#include "server/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok) {
    if (!ok) {
        abort();
    }
}

static const fn_text *demo(void) {
    static fn_text *text;
    fn_text_options options = {.model_dir = "models/demo", .need_tokenizer = true};
    if (text == NULL) {
        must(fn_text_open(&options, &text, NULL) == FN_OK);
    }
    return text;
}

static void check_refusal(const srv_problem *problem) {
    must(problem->status >= 400 && problem->message[0] != 0 && problem->type != NULL);
    json_t *json = srv_problem_json(problem);
    char *text = json_dumps(json, 0);
    must(text != NULL);
    free(text);
    json_decref(json);
}

static void check_request(const srv_request *request, const srv_limits *limits) {
    must(request->n_prompts > 0 && request->n_answers >= 1);
    must(request->n_answers <= SRV_MAX_ANSWERS && request->generation.n_stop <= SRV_MAX_STOPS);
    for (size_t i = 0; i < request->n_prompts; i++) {
        const srv_prompt *prompt = &request->prompts[i];
        must(prompt->n_ids > 0 && prompt->n_ids < limits->context);
        for (size_t k = 0; k < prompt->n_ids; k++) {
            must(prompt->ids[k] >= 0 && (size_t)prompt->ids[k] < limits->vocab);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    srv_limits limits = {.text = demo(), .vocab = 6144, .context = 512};
    srv_problem problem = {0};
    srv_request request = {0};
    json_t *root = NULL;
    if (n < 1) {
        return 0;
    }
    bool chat = (data[0] & 1) != 0;
    limits.safe_content = (data[0] & 2) != 0;
    if (!srv_parse_object((const char *)data + 1, n - 1, &root, &problem)) {
        check_refusal(&problem);
        return 0;
    }
    bool good = chat ? srv_chat_request_read(&limits, root, &request, &problem)
                     : srv_completion_request_read(&limits, root, &request, &problem);
    if (good) {
        check_request(&request, &limits);
    } else {
        check_refusal(&problem);
    }
    srv_request_free(&request);
    return 0;
}
