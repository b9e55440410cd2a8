#include "tokens/jinja_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tokens/jinja_string.h"

static bool parse_body(fn_jparser *p, const char *const *end_tags, fn_jnodes *out);

const fn_jtok *fn_jparse_look(const fn_jparser *p, size_t ahead) {
    const fn_jtok *token = p->tokens + p->at;
    while (ahead > 0 && token->kind != FN_JTOK_EOF && token->kind != FN_JTOK_ERROR) {
        token++;
        ahead--;
    }
    return token;
}

void fn_jparse_next(fn_jparser *p) {
    fn_jtok_kind kind = p->tokens[p->at].kind;
    p->at += kind != FN_JTOK_EOF && kind != FN_JTOK_ERROR ? 1 : 0;
}

bool fn_jparse_is_name(const fn_jparser *p, const char *name) {
    const fn_jtok *token = &p->tokens[p->at];
    return token->kind == FN_JTOK_NAME && strcmp(token->text, name) == 0;
}

bool fn_jparse_is_op(const fn_jparser *p, char op) {
    const fn_jtok *token = &p->tokens[p->at];
    return token->kind == FN_JTOK_OPERATOR && token->op == op;
}

bool fn_jparse_skip_name(fn_jparser *p, const char *name) {
    bool is = fn_jparse_is_name(p, name);
    if (is) {
        fn_jparse_next(p);
    }
    return is;
}

bool fn_jparse_skip_op(fn_jparser *p, char op) {
    bool is = fn_jparse_is_op(p, op);
    if (is) {
        fn_jparse_next(p);
    }
    return is;
}

const char *fn_jparse_describe(fn_jparser *p, const fn_jtok *token) {
    (void)p;
    switch (token->kind) {
    case FN_JTOK_DATA:
        return "template data / text";
    case FN_JTOK_VARIABLE_BEGIN:
        return "begin of print statement";
    case FN_JTOK_VARIABLE_END:
        return "end of print statement";
    case FN_JTOK_BLOCK_BEGIN:
        return "begin of statement block";
    case FN_JTOK_BLOCK_END:
        return "end of statement block";
    case FN_JTOK_NAME:
        return token->text;
    case FN_JTOK_STRING:
        return "string";
    case FN_JTOK_INTEGER:
        return "integer";
    case FN_JTOK_FLOAT:
        return "float";
    case FN_JTOK_OPERATOR:
        return fn_jop_text(token->op);
    case FN_JTOK_ERROR:
    case FN_JTOK_EOF:
        break;
    }
    return "end of template";
}

void *fn_jparse_fail(fn_jparser *p, int line, const char *format, ...) {
    const fn_jtok *token = &p->tokens[p->at];
    if (p->run->status != FN_OK) {
        return NULL;
    }
    if (token->kind == FN_JTOK_ERROR) {
        (void)fn_fail(p->run->err, FN_E_MODEL, "%s", token->text);
        line = token->line;
    } else {
        va_list args;
        va_start(args, format);
        (void)fn_fail_v(p->run->err, FN_E_MODEL, format, args);
        va_end(args);
    }
    fn_error_prefix(p->run->err, "%s: line %d", p->run->name, line);
    p->run->status = FN_E_MODEL;
    p->run->error_line = line;
    return NULL;
}

bool fn_jparse_enter(fn_jparser *p) {
    p->depth++;
    if (p->depth > FN_JPARSE_MAX_DEPTH) {
        (void)fn_jparse_fail(p, fn_jparse_look(p, 0)->line, "nested more than %d deep",
                             FN_JPARSE_MAX_DEPTH);
        return false;
    }
    return p->run->status == FN_OK;
}

static void *unexpected(fn_jparser *p, const char *expected) {
    const fn_jtok *token = fn_jparse_look(p, 0);
    if (token->kind == FN_JTOK_EOF) {
        return fn_jparse_fail(p, token->line, "unexpected end of template, expected '%s'.",
                              expected);
    }
    return fn_jparse_fail(p, token->line, "expected token '%s', got '%s'", expected,
                          fn_jparse_describe(p, token));
}

bool fn_jparse_expect_op(fn_jparser *p, char op) {
    if (fn_jparse_skip_op(p, op)) {
        return true;
    }
    (void)unexpected(p, fn_jop_text(op));
    return false;
}

const char *fn_jparse_expect_name(fn_jparser *p) {
    const fn_jtok *token = fn_jparse_look(p, 0);
    if (token->kind != FN_JTOK_NAME) {
        return unexpected(p, "name");
    }
    fn_jparse_next(p);
    return token->text;
}

static bool expect_kind(fn_jparser *p, fn_jtok_kind kind, const char *what) {
    if (fn_jparse_look(p, 0)->kind == kind) {
        fn_jparse_next(p);
        return true;
    }
    (void)unexpected(p, what);
    return false;
}

static bool expect_block_end(fn_jparser *p) {
    return expect_kind(p, FN_JTOK_BLOCK_END, "end of statement block");
}

fn_jnode *fn_jparse_node(fn_jparser *p, fn_jkind kind, int line) {
    fn_jnode *node = fn_jrun_array(p->run, 1, sizeof *node);
    if (node != NULL) {
        node->kind = kind;
        node->line = line;
        node->height = 1;
    }
    return node;
}

static uint16_t tallest(uint16_t height, const fn_jnode *child) {
    return child != NULL && child->height > height ? child->height : height;
}

static uint16_t tallest_of(uint16_t height, const fn_jnodes *nodes) {
    for (size_t i = 0; i < nodes->n; i++) {
        height = tallest(height, nodes->items[i]);
    }
    return height;
}

fn_jnode *fn_jparse_done(fn_jparser *p, fn_jnode *node) {
    uint16_t height = tallest(tallest(tallest(tallest(0, node->a), node->b), node->c), node->d);
    height = tallest_of(tallest_of(tallest_of(height, &node->items), &node->body), &node->other);
    if (node->args != NULL) {
        height = tallest_of(height, &node->args->positional);
        height = tallest(tallest(height, node->args->rest), node->args->rest_keywords);
        for (size_t i = 0; i < node->args->n_keywords; i++) {
            height = tallest(height, node->args->keywords[i].value);
        }
    }
    if (node->macro != NULL) {
        height = tallest_of(tallest_of(height, &node->macro->body), &node->macro->defaults);
    }
    if (height >= FN_JPARSE_MAX_HEIGHT) {
        return fn_jparse_fail(p, node->line, "an expression of more than %d levels",
                              FN_JPARSE_MAX_HEIGHT);
    }
    node->height = (uint16_t)(height + 1);
    return node;
}

bool fn_jparse_push(fn_jparser *p, fn_jnodes *nodes, fn_jnode *node) {
    void *items = nodes->items;
    if (node == NULL ||
        !fn_jrun_reserve(p->run, &items, &nodes->capacity, nodes->n + 1, sizeof(fn_jnode *))) {
        return false;
    }
    nodes->items = items;
    nodes->items[nodes->n++] = node;
    return true;
}

/* ---- statements; each stands behind its own keyword and stops before the block's end ---- */

static const char *const endset[] = {"endset", NULL};
static const char *const endfor[] = {"endfor", NULL};
static const char *const endfor_else[] = {"endfor", "else", NULL};
static const char *const endif[] = {"endif", NULL};
static const char *const endif_elif_else[] = {"elif", "else", "endif", NULL};
static const char *const endwith[] = {"endwith", NULL};
static const char *const endcall[] = {"endcall", NULL};
static const char *const endfilter[] = {"endfilter", NULL};
static const char *const endmacro[] = {"endmacro", NULL};
static const char *const endgeneration[] = {"endgeneration", NULL};

static fn_jnode *parse_set(fn_jparser *p, int line) {
    fn_jnode *target = fn_jparse_target(p, (fn_jtuple_rule){.namespaces = true});
    if (target == NULL) {
        return NULL;
    }
    bool assign = fn_jparse_skip_op(p, FN_JOP_ASSIGN);
    fn_jnode *node = fn_jparse_node(p, assign ? FN_JN_SET : FN_JN_BLOCK_SET, line);
    if (node == NULL) {
        return NULL;
    }
    node->a = target;
    if (assign) {
        node->b = fn_jparse_tuple(p, (fn_jtuple_rule){0});
        return node->b != NULL ? fn_jparse_done(p, node) : NULL;
    }
    node->b = fn_jparse_filters(p, NULL, false);
    if (p->run->status != FN_OK || !parse_body(p, endset, &node->body)) {
        return NULL;
    }
    fn_jparse_next(p);
    return fn_jparse_done(p, node);
}

/* A second copy of a target: names in it get places of their own. */
static fn_jnode *copy_target(fn_jparser *p, const fn_jnode *target) {
    fn_jnode *copy = fn_jparse_node(p, target->kind, target->line);
    if (copy == NULL) {
        return NULL;
    }
    copy->name = target->name;
    copy->attribute = target->attribute;
    for (size_t i = 0; i < target->items.n; i++) {
        if (!fn_jparse_push(p, &copy->items, copy_target(p, target->items.items[i]))) {
            return NULL;
        }
    }
    return copy;
}

static bool parse_for_head(fn_jparser *p, fn_jnode *node) {
    node->a = fn_jparse_target(p, (fn_jtuple_rule){.stop = "in"});
    if (node->a == NULL) {
        return false;
    }
    if (!fn_jparse_skip_name(p, "in")) {
        (void)unexpected(p, "in");
        return false;
    }
    node->b = fn_jparse_tuple(p, (fn_jtuple_rule){.no_condition = true, .stop = "recursive"});
    if (node->b == NULL) {
        return false;
    }
    if (fn_jparse_skip_name(p, "if")) {
        node->c = fn_jparse_expression(p);
        node->d = node->c != NULL ? copy_target(p, node->a) : NULL;
        if (node->d == NULL) {
            return false;
        }
    }
    node->recursive = fn_jparse_skip_name(p, "recursive");
    return true;
}

static fn_jnode *parse_for(fn_jparser *p, int line) {
    fn_jnode *node = fn_jparse_node(p, FN_JN_FOR, line);
    if (node == NULL || !parse_for_head(p, node) || !parse_body(p, endfor_else, &node->body)) {
        return NULL;
    }
    bool has_else = fn_jparse_is_name(p, "else");
    fn_jparse_next(p);
    if (has_else) {
        if (!parse_body(p, endfor, &node->other)) {
            return NULL;
        }
        fn_jparse_next(p);
    }
    return fn_jparse_done(p, node);
}

static fn_jnode *parse_if(fn_jparser *p, int line) {
    fn_jnode *result = fn_jparse_node(p, FN_JN_IF, line);
    fn_jnode *node = result;
    while (node != NULL) {
        node->a = fn_jparse_tuple(p, (fn_jtuple_rule){.no_condition = true});
        if (node->a == NULL || !parse_body(p, endif_elif_else, &node->body)) {
            return NULL;
        }
        if (node != result && !fn_jparse_push(p, &result->items, fn_jparse_done(p, node))) {
            return NULL;
        }
        int at = fn_jparse_look(p, 0)->line;
        if (fn_jparse_skip_name(p, "elif")) {
            node = fn_jparse_node(p, FN_JN_IF, at);
            continue;
        }
        bool has_else = fn_jparse_is_name(p, "else");
        fn_jparse_next(p);
        if (has_else) {
            if (!parse_body(p, endif, &result->other)) {
                return NULL;
            }
            fn_jparse_next(p);
        }
        return fn_jparse_done(p, result);
    }
    return NULL;
}

static fn_jnode *parse_with(fn_jparser *p, int line) {
    fn_jnode *node = fn_jparse_node(p, FN_JN_WITH, line);
    while (node != NULL && fn_jparse_look(p, 0)->kind != FN_JTOK_BLOCK_END) {
        if (node->items.n > 0 && !fn_jparse_expect_op(p, ',')) {
            return NULL;
        }
        if (!fn_jparse_push(p, &node->items, fn_jparse_target(p, (fn_jtuple_rule){0})) ||
            !fn_jparse_expect_op(p, FN_JOP_ASSIGN) ||
            !fn_jparse_push(p, &node->other, fn_jparse_expression(p))) {
            return NULL;
        }
    }
    if (node == NULL || !parse_body(p, endwith, &node->body)) {
        return NULL;
    }
    fn_jparse_next(p);
    return fn_jparse_done(p, node);
}

static bool parse_signature(fn_jparser *p, fn_jmacro_def *macro) {
    if (!fn_jparse_expect_op(p, '(')) {
        return false;
    }
    while (!fn_jparse_is_op(p, ')')) {
        if (macro->params.n > 0 && !fn_jparse_expect_op(p, ',')) {
            return false;
        }
        fn_jnode *param = fn_jparse_node(p, FN_JN_NAME, fn_jparse_look(p, 0)->line);
        if (param == NULL) {
            return false;
        }
        param->name = fn_jparse_expect_name(p);
        if (param->name == NULL || !fn_jparse_push(p, &macro->params, param)) {
            return false;
        }
        if (fn_jparse_skip_op(p, FN_JOP_ASSIGN)) {
            if (!fn_jparse_push(p, &macro->defaults, fn_jparse_expression(p))) {
                return false;
            }
        } else if (macro->defaults.n > 0) {
            return fn_jparse_fail(p, fn_jparse_look(p, 0)->line,
                                  "non-default argument follows default argument") != NULL;
        }
    }
    return fn_jparse_expect_op(p, ')');
}

static fn_jnode *macro_node(fn_jparser *p, fn_jkind kind, int line) {
    fn_jnode *node = fn_jparse_node(p, kind, line);
    if (node != NULL) {
        node->macro = fn_jrun_array(p->run, 1, sizeof *node->macro);
    }
    return node != NULL && node->macro != NULL ? node : NULL;
}

static fn_jnode *parse_macro(fn_jparser *p, int line) {
    fn_jnode *node = macro_node(p, FN_JN_MACRO, line);
    if (node == NULL) {
        return NULL;
    }
    node->name = fn_jparse_expect_name(p);
    node->macro->name = node->name;
    if (node->name == NULL || !parse_signature(p, node->macro) ||
        !parse_body(p, endmacro, &node->macro->body)) {
        return NULL;
    }
    fn_jparse_next(p);
    return fn_jparse_done(p, node);
}

static fn_jnode *parse_call_block(fn_jparser *p, int line) {
    fn_jnode *node = macro_node(p, FN_JN_CALL_BLOCK, line);
    if (node == NULL || (fn_jparse_is_op(p, '(') && !parse_signature(p, node->macro))) {
        return NULL;
    }
    node->a = fn_jparse_expression(p);
    if (node->a == NULL) {
        return NULL;
    }
    if (node->a->kind != FN_JN_CALL) {
        return fn_jparse_fail(p, line, "expected call");
    }
    if (!parse_body(p, endcall, &node->macro->body)) {
        return NULL;
    }
    fn_jparse_next(p);
    return fn_jparse_done(p, node);
}

static fn_jnode *parse_generation(fn_jparser *p, int line) {
    fn_jnode *node = macro_node(p, FN_JN_GENERATION, line);
    if (node == NULL || !parse_body(p, endgeneration, &node->macro->body)) {
        return NULL;
    }
    fn_jparse_next(p);
    return fn_jparse_done(p, node);
}

static fn_jnode *parse_filter_block(fn_jparser *p, int line) {
    fn_jnode *node = fn_jparse_node(p, FN_JN_FILTER_BLOCK, line);
    if (node == NULL) {
        return NULL;
    }
    node->b = fn_jparse_filters(p, NULL, true);
    if (node->b == NULL || !parse_body(p, endfilter, &node->body)) {
        return NULL;
    }
    fn_jparse_next(p);
    return fn_jparse_done(p, node);
}

static fn_jnode *output_node(fn_jparser *p, int line, fn_jnode *value) {
    fn_jnode *node = value != NULL ? fn_jparse_node(p, FN_JN_OUTPUT, line) : NULL;
    if (node == NULL) {
        return NULL;
    }
    node->a = value;
    return fn_jparse_done(p, node);
}

static fn_jnode *parse_print(fn_jparser *p, int line) {
    fn_jnode *node = fn_jparse_node(p, FN_JN_GROUP, line);
    while (node != NULL && fn_jparse_look(p, 0)->kind != FN_JTOK_BLOCK_END) {
        if (node->body.n > 0 && !fn_jparse_expect_op(p, ',')) {
            return NULL;
        }
        if (!fn_jparse_push(p, &node->body, output_node(p, line, fn_jparse_expression(p)))) {
            return NULL;
        }
    }
    return node != NULL ? fn_jparse_done(p, node) : NULL;
}

static fn_jnode *parse_break(fn_jparser *p, int line) {
    return fn_jparse_node(p, FN_JN_BREAK, line);
}

static fn_jnode *parse_continue(fn_jparser *p, int line) {
    return fn_jparse_node(p, FN_JN_CONTINUE, line);
}

static const char *join_tags(fn_jparser *p, const char *const *tags) {
    const char *text = "";
    for (size_t i = 0; tags[i] != NULL; i++) {
        text = fn_jrun_format(p->run, "%s%s'%s'", text, i > 0 ? " or " : "", tags[i]);
    }
    return text;
}

/* As jinja2 words it; name is NULL at the end of the template. */
static void *unknown_tag(fn_jparser *p, const char *name, int line) {
    const char *message = name != NULL
                              ? fn_jrun_format(p->run, "Encountered unknown tag '%s'.", name)
                              : "Unexpected end of template.";
    if (p->end_tags != NULL) {
        message = fn_jrun_format(p->run, "%s Jinja was looking for the following tags: %s.",
                                 message, join_tags(p, p->end_tags));
    }
    if (p->n_tags > 0) {
        message = fn_jrun_format(p->run, "%s The innermost block that needs to be closed is '%s'.",
                                 message, p->tags[p->n_tags - 1]);
    }
    return fn_jparse_fail(p, line, "%s", message);
}

static fn_jnode *parse_statement(fn_jparser *p) {
    static const struct {
        const char *tag;
        fn_jnode *(*parse)(fn_jparser *, int);
    } statements[] = {
        {"for", parse_for},
        {"if", parse_if},
        {"set", parse_set},
        {"with", parse_with},
        {"macro", parse_macro},
        {"call", parse_call_block},
        {"filter", parse_filter_block},
        {"print", parse_print},
        {"break", parse_break},
        {"continue", parse_continue},
        {"generation", parse_generation},
    };
    static const char *const refused[] = {"block", "extends", "include",
                                          "from",  "import",  "autoescape"};
    const fn_jtok *token = fn_jparse_look(p, 0);
    if (token->kind != FN_JTOK_NAME) {
        return fn_jparse_fail(p, token->line, "tag name expected");
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (strcmp(token->text, refused[i]) == 0) {
            return fn_jparse_fail(p, token->line, "the tag '%s' cannot be used in a chat template",
                                  token->text);
        }
    }
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (strcmp(token->text, statements[i].tag) != 0) {
            continue;
        }
        if (!fn_jparse_enter(p)) {
            return NULL;
        }
        p->tags[p->n_tags++] = statements[i].tag;
        fn_jparse_next(p);
        fn_jnode *node = statements[i].parse(p, token->line);
        p->n_tags--;
        p->depth--;
        return node;
    }
    return unknown_tag(p, token->text, token->line);
}

static bool parse_text(fn_jparser *p, fn_jnodes *out) {
    const fn_jtok *token = fn_jparse_look(p, 0);
    fn_jnode *node = fn_jparse_node(p, FN_JN_TEXT, token->line);
    if (node == NULL) {
        return false;
    }
    node->value = fn_jstr_view(p->run, token->text, token->n, false);
    fn_jparse_next(p);
    return !fn_j_failed(node->value) && fn_jparse_push(p, out, node);
}

static bool parse_output(fn_jparser *p, fn_jnodes *out) {
    fn_jparse_next(p);
    int line = fn_jparse_look(p, 0)->line;
    return fn_jparse_push(p, out, output_node(p, line, fn_jparse_tuple(p, (fn_jtuple_rule){0}))) &&
           expect_kind(p, FN_JTOK_VARIABLE_END, "end of print statement");
}

static bool is_one_of(const fn_jparser *p, const char *const *tags) {
    for (size_t i = 0; tags != NULL && tags[i] != NULL; i++) {
        if (fn_jparse_is_name(p, tags[i])) {
            return true;
        }
    }
    return false;
}

/* Nodes until one of the end tags (at which it stops) or, without any, the end of the template. */
static bool parse_nodes(fn_jparser *p, const char *const *end_tags, fn_jnodes *out) {
    for (;;) {
        const fn_jtok *token = fn_jparse_look(p, 0);
        bool ok = false;
        switch (token->kind) {
        case FN_JTOK_DATA:
            ok = parse_text(p, out);
            break;
        case FN_JTOK_VARIABLE_BEGIN:
            ok = parse_output(p, out);
            break;
        case FN_JTOK_BLOCK_BEGIN:
            fn_jparse_next(p);
            if (is_one_of(p, end_tags)) {
                return true;
            }
            ok = fn_jparse_push(p, out, parse_statement(p)) && expect_block_end(p);
            break;
        case FN_JTOK_EOF:
            return end_tags == NULL || unknown_tag(p, NULL, token->line) != NULL;
        default:
            ok = unexpected(p, "begin of statement block") != NULL;
            break;
        }
        if (!ok) {
            return false;
        }
    }
}

static bool parse_body(fn_jparser *p, const char *const *end_tags, fn_jnodes *out) {
    (void)fn_jparse_skip_op(p, ':');
    if (!expect_block_end(p)) {
        return false;
    }
    const char *const *outer = p->end_tags;
    p->end_tags = end_tags;
    bool ok = parse_nodes(p, end_tags, out);
    p->end_tags = outer;
    return ok;
}

bool fn_jparse(fn_jrun *run, const fn_jtoks *tokens, fn_jtemplate *out) {
    fn_jparser p = {.run = run, .tokens = tokens->items};
    return parse_nodes(&p, NULL, &out->body);
}
