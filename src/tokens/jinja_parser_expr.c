/* Expressions (jinja_parser.h): one function a level of precedence, weakest first. */
#include <stdlib.h>
#include <string.h>

#include "tokens/jinja_builtin.h"
#include "tokens/jinja_number.h"
#include "tokens/jinja_parser.h"
#include "tokens/jinja_string.h"

static fn_jnode *parse_unary(fn_jparser *p, bool with_filter);

static fn_jnode *pair(fn_jparser *p, fn_jkind kind, int line, fn_jnode *a, fn_jnode *b) {
    if (a == NULL || b == NULL) {
        return NULL;
    }
    fn_jnode *node = fn_jparse_node(p, kind, line);
    if (node == NULL) {
        return NULL;
    }
    node->a = a;
    node->b = b;
    return fn_jparse_done(p, node);
}

static int line_of(const fn_jparser *p) {
    return fn_jparse_look(p, 0)->line;
}

static fn_jnode *constant(fn_jparser *p, int line, fn_jval value) {
    fn_jnode *node = fn_j_failed(value) ? NULL : fn_jparse_node(p, FN_JN_CONST, line);
    if (node != NULL) {
        node->value = value;
    }
    return node;
}

static fn_jnode *parse_pow(fn_jparser *p) {
    int line = line_of(p);
    fn_jnode *left = parse_unary(p, true);
    while (left != NULL && fn_jparse_skip_op(p, FN_JOP_POW)) {
        left = pair(p, FN_JN_BINARY, line, left, parse_unary(p, true));
        if (left != NULL) {
            left->op = FN_JOP_POW;
        }
        line = line_of(p);
    }
    return left;
}

/* Left-associative binary operators out of `ops`, operands by `operand`. */
static fn_jnode *parse_binary(fn_jparser *p, const char *ops, fn_jnode *(*operand)(fn_jparser *)) {
    int line = line_of(p);
    fn_jnode *left = operand(p);
    while (left != NULL) {
        const fn_jtok *token = fn_jparse_look(p, 0);
        if (token->kind != FN_JTOK_OPERATOR || strchr(ops, token->op) == NULL) {
            break;
        }
        char op = token->op;
        fn_jparse_next(p);
        left = pair(p, FN_JN_BINARY, line, left, operand(p));
        if (left != NULL) {
            left->op = op;
        }
        line = line_of(p);
    }
    return left;
}

static fn_jnode *parse_product(fn_jparser *p) {
    return parse_binary(p, "*/f%", parse_pow);
}

static fn_jnode *parse_concat(fn_jparser *p) {
    int line = line_of(p);
    fn_jnode *first = parse_product(p);
    if (first == NULL || !fn_jparse_is_op(p, '~')) {
        return first;
    }
    fn_jnode *node = fn_jparse_node(p, FN_JN_CONCAT, line);
    if (node == NULL || !fn_jparse_push(p, &node->items, first)) {
        return NULL;
    }
    while (fn_jparse_skip_op(p, '~')) {
        if (!fn_jparse_push(p, &node->items, parse_product(p))) {
            return NULL;
        }
    }
    return fn_jparse_done(p, node);
}

static fn_jnode *parse_sum(fn_jparser *p) {
    return parse_binary(p, "+-", parse_concat);
}

/* The comparison operator at hand, past which it moves; 0: none. */
static char comparison(fn_jparser *p) {
    const fn_jtok *token = fn_jparse_look(p, 0);
    if (token->kind == FN_JTOK_OPERATOR && strchr("=!<>gl", token->op) != NULL) {
        char op = token->op;
        fn_jparse_next(p);
        return op;
    }
    if (fn_jparse_skip_name(p, "in")) {
        return FN_JOP_IN;
    }
    const fn_jtok *after = fn_jparse_is_name(p, "not") ? fn_jparse_look(p, 1) : NULL;
    if (after != NULL && after->kind == FN_JTOK_NAME && strcmp(after->text, "in") == 0) {
        fn_jparse_next(p);
        fn_jparse_next(p);
        return FN_JOP_NOT_IN;
    }
    return 0;
}

static fn_jnode *parse_compare(fn_jparser *p) {
    int line = line_of(p);
    fn_jnode *first = parse_sum(p);
    char op = (char)(first != NULL ? comparison(p) : 0);
    if (op == 0) {
        return first;
    }
    fn_jnode *node = fn_jparse_node(p, FN_JN_COMPARE, line);
    if (node == NULL) {
        return NULL;
    }
    node->a = first;
    for (; op != 0; op = comparison(p)) {
        fn_jnode *operand = fn_jparse_node(p, FN_JN_OPERAND, line);
        fn_jnode *value = parse_sum(p);
        if (operand == NULL || value == NULL) {
            return NULL;
        }
        operand->op = op;
        operand->a = value;
        if (!fn_jparse_push(p, &node->items, fn_jparse_done(p, operand))) {
            return NULL;
        }
    }
    return fn_jparse_done(p, node);
}

static fn_jnode *parse_not(fn_jparser *p) {
    if (!fn_jparse_is_name(p, "not")) {
        return parse_compare(p);
    }
    int line = line_of(p);
    fn_jparse_next(p);
    fn_jnode *node = fn_jparse_enter(p) ? fn_jparse_node(p, FN_JN_NOT, line) : NULL;
    if (node == NULL) {
        return NULL;
    }
    node->a = parse_not(p);
    p->depth--;
    return node->a != NULL ? fn_jparse_done(p, node) : NULL;
}

static fn_jnode *parse_and(fn_jparser *p) {
    int line = line_of(p);
    fn_jnode *left = parse_not(p);
    while (left != NULL && fn_jparse_skip_name(p, "and")) {
        left = pair(p, FN_JN_AND, line, left, parse_not(p));
        line = line_of(p);
    }
    return left;
}

static fn_jnode *parse_or(fn_jparser *p) {
    int line = line_of(p);
    fn_jnode *left = parse_and(p);
    while (left != NULL && fn_jparse_skip_name(p, "or")) {
        left = pair(p, FN_JN_OR, line, left, parse_and(p));
        line = line_of(p);
    }
    return left;
}

static fn_jnode *parse_condition(fn_jparser *p) {
    int line = line_of(p);
    fn_jnode *value = parse_or(p);
    while (value != NULL && fn_jparse_skip_name(p, "if")) {
        fn_jnode *node = fn_jparse_node(p, FN_JN_COND, line);
        fn_jnode *test = parse_or(p);
        if (node == NULL || test == NULL) {
            return NULL;
        }
        node->a = test;
        node->b = value;
        if (fn_jparse_skip_name(p, "else")) {
            node->c = fn_jparse_enter(p) ? parse_condition(p) : NULL;
            if (node->c == NULL) {
                return NULL;
            }
            p->depth--;
        }
        value = fn_jparse_done(p, node);
        line = line_of(p);
    }
    return value;
}

fn_jnode *fn_jparse_expression(fn_jparser *p) {
    if (!fn_jparse_enter(p)) {
        return NULL;
    }
    fn_jnode *node = parse_condition(p);
    p->depth--;
    return node;
}

static fn_jnode *parse_no_condition(fn_jparser *p) {
    if (!fn_jparse_enter(p)) {
        return NULL;
    }
    fn_jnode *node = parse_or(p);
    p->depth--;
    return node;
}

static fn_jnode *parse_list(fn_jparser *p) {
    fn_jnode *node = fn_jparse_node(p, FN_JN_LIST, line_of(p));
    fn_jparse_next(p);
    while (node != NULL && !fn_jparse_is_op(p, ']')) {
        if (node->items.n > 0 && !fn_jparse_expect_op(p, ',')) {
            return NULL;
        }
        if (fn_jparse_is_op(p, ']')) {
            break;
        }
        if (!fn_jparse_push(p, &node->items, fn_jparse_expression(p))) {
            return NULL;
        }
    }
    return node != NULL && fn_jparse_expect_op(p, ']') ? fn_jparse_done(p, node) : NULL;
}

static fn_jnode *parse_dict(fn_jparser *p) {
    fn_jnode *node = fn_jparse_node(p, FN_JN_DICT, line_of(p));
    fn_jparse_next(p);
    while (node != NULL && !fn_jparse_is_op(p, '}')) {
        if (node->items.n > 0 && !fn_jparse_expect_op(p, ',')) {
            return NULL;
        }
        if (fn_jparse_is_op(p, '}')) {
            break;
        }
        if (!fn_jparse_push(p, &node->items, fn_jparse_expression(p)) ||
            !fn_jparse_expect_op(p, ':') ||
            !fn_jparse_push(p, &node->items, fn_jparse_expression(p))) {
            return NULL;
        }
    }
    return node != NULL && fn_jparse_expect_op(p, '}') ? fn_jparse_done(p, node) : NULL;
}

static fn_jnode *parse_strings(fn_jparser *p) {
    int line = line_of(p);
    fn_jbuf buf = {0};
    while (fn_jparse_look(p, 0)->kind == FN_JTOK_STRING) {
        const fn_jtok *token = fn_jparse_look(p, 0);
        fn_jbuf_add(p->run, &buf, token->text, token->n, false);
        fn_jparse_next(p);
    }
    return constant(p, line, fn_jbuf_take(p->run, &buf));
}

static fn_jval integer_value(fn_jparser *p, const fn_jtok *token) {
    char kind = (char)(token->n > 1 ? token->text[1] : '0');
    int base = kind == 'x' || kind == 'X'   ? 16
               : kind == 'o' || kind == 'O' ? 8
               : kind == 'b' || kind == 'B' ? 2
                                            : 10;
    if (token->n > (base == 10 ? FN_JNUM_MAX_DIGITS : 2 + 15)) {
        (void)fn_jparse_fail(p, token->line, "integer literal too large");
        return fn_j_int(0);
    }
    if (base == 10) {
        return fn_jnum_parse_int(p->run, token->text, token->n);
    }
    return fn_j_int(strtoll(token->text + 2, NULL, base));
}

static fn_jnode *parse_number(fn_jparser *p) {
    const fn_jtok *token = fn_jparse_look(p, 0);
    bool ok = true;
    fn_jval value = token->kind == FN_JTOK_INTEGER
                        ? integer_value(p, token)
                        : fn_j_float(fn_jnum_parse_float(token->text, token->n, &ok));
    fn_jparse_next(p);
    return constant(p, token->line, value);
}

static fn_jnode *parse_name(fn_jparser *p, bool namespaces) {
    const fn_jtok *token = fn_jparse_look(p, 0);
    fn_jparse_next(p);
    const char *name = token->text;
    if (strcmp(name, "true") == 0 || strcmp(name, "True") == 0) {
        return constant(p, token->line, fn_j_bool(true));
    }
    if (strcmp(name, "false") == 0 || strcmp(name, "False") == 0) {
        return constant(p, token->line, fn_j_bool(false));
    }
    if (strcmp(name, "none") == 0 || strcmp(name, "None") == 0) {
        return constant(p, token->line, fn_j_none());
    }
    bool reference = namespaces && fn_jparse_skip_op(p, '.');
    fn_jnode *node = fn_jparse_node(p, reference ? FN_JN_NSREF : FN_JN_NAME, token->line);
    if (node == NULL) {
        return NULL;
    }
    node->name = name;
    if (reference) {
        node->attribute = fn_jparse_expect_name(p);
        return node->attribute != NULL ? node : NULL;
    }
    return node;
}

static fn_jnode *parse_primary(fn_jparser *p, bool namespaces) {
    const fn_jtok *token = fn_jparse_look(p, 0);
    switch (token->kind) {
    case FN_JTOK_NAME:
        return parse_name(p, namespaces);
    case FN_JTOK_STRING:
        return parse_strings(p);
    case FN_JTOK_INTEGER:
    case FN_JTOK_FLOAT:
        return parse_number(p);
    default:
        break;
    }
    if (fn_jparse_is_op(p, '(')) {
        fn_jparse_next(p);
        fn_jnode *node =
            fn_jparse_enter(p) ? fn_jparse_tuple(p, (fn_jtuple_rule){.parenthesised = true}) : NULL;
        p->depth--;
        return node != NULL && fn_jparse_expect_op(p, ')') ? node : NULL;
    }
    if (fn_jparse_is_op(p, '[')) {
        return parse_list(p);
    }
    if (fn_jparse_is_op(p, '{')) {
        return parse_dict(p);
    }
    return fn_jparse_fail(p, token->line, "unexpected '%s'", fn_jparse_describe(p, token));
}

static bool tuple_ends(const fn_jparser *p, const char *stop) {
    fn_jtok_kind kind = fn_jparse_look(p, 0)->kind;
    return kind == FN_JTOK_VARIABLE_END || kind == FN_JTOK_BLOCK_END || fn_jparse_is_op(p, ')') ||
           (stop != NULL && fn_jparse_is_name(p, stop));
}

fn_jnode *fn_jparse_tuple(fn_jparser *p, fn_jtuple_rule rule) {
    fn_jnode *node = fn_jparse_node(p, FN_JN_TUPLE, line_of(p));
    bool is_tuple = false;
    while (node != NULL) {
        if (node->items.n > 0 && !fn_jparse_expect_op(p, ',')) {
            return NULL;
        }
        if (tuple_ends(p, rule.stop)) {
            break;
        }
        fn_jnode *item = rule.simplified     ? parse_primary(p, rule.namespaces)
                         : rule.no_condition ? parse_no_condition(p)
                                             : fn_jparse_expression(p);
        if (!fn_jparse_push(p, &node->items, item)) {
            return NULL;
        }
        if (!fn_jparse_is_op(p, ',')) {
            break;
        }
        is_tuple = true;
    }
    if (node == NULL) {
        return NULL;
    }
    if (!is_tuple && node->items.n > 0) {
        return node->items.items[0];
    }
    if (!is_tuple && !rule.parenthesised) {
        const fn_jtok *token = fn_jparse_look(p, 0);
        return fn_jparse_fail(p, token->line, "Expected an expression, got '%s'",
                              fn_jparse_describe(p, token));
    }
    return fn_jparse_done(p, node);
}

static bool ends_subscript(const fn_jparser *p) {
    return fn_jparse_is_op(p, ']') || fn_jparse_is_op(p, ',');
}

static fn_jnode *parse_subscribed(fn_jparser *p) {
    int line = line_of(p);
    fn_jnode *first = NULL;
    if (!fn_jparse_skip_op(p, ':')) {
        first = fn_jparse_expression(p);
        if (first == NULL || !fn_jparse_skip_op(p, ':')) {
            return first;
        }
    }
    fn_jnode *node = fn_jparse_node(p, FN_JN_SLICE, line);
    if (node == NULL) {
        return NULL;
    }
    node->a = first;
    if (!fn_jparse_is_op(p, ':') && !ends_subscript(p)) {
        node->b = fn_jparse_expression(p);
        if (node->b == NULL) {
            return NULL;
        }
    }
    if (fn_jparse_skip_op(p, ':') && !ends_subscript(p)) {
        node->c = fn_jparse_expression(p);
        if (node->c == NULL) {
            return NULL;
        }
    }
    return fn_jparse_done(p, node);
}

static fn_jnode *parse_index(fn_jparser *p, fn_jnode *object, int line) {
    fn_jnode *tuple = fn_jparse_node(p, FN_JN_TUPLE, line);
    while (tuple != NULL && !fn_jparse_is_op(p, ']')) {
        if (tuple->items.n > 0 && !fn_jparse_expect_op(p, ',')) {
            return NULL;
        }
        if (!fn_jparse_push(p, &tuple->items, parse_subscribed(p))) {
            return NULL;
        }
    }
    if (tuple == NULL || !fn_jparse_expect_op(p, ']')) {
        return NULL;
    }
    fn_jnode *index = tuple->items.n == 1 ? tuple->items.items[0] : fn_jparse_done(p, tuple);
    return pair(p, FN_JN_GETITEM, line, object, index);
}

static fn_jnode *parse_attribute(fn_jparser *p, fn_jnode *object, int line) {
    const fn_jtok *token = fn_jparse_look(p, 0);
    fn_jparse_next(p);
    if (token->kind == FN_JTOK_INTEGER) {
        return pair(p, FN_JN_GETITEM, line, object,
                    constant(p, token->line, integer_value(p, token)));
    }
    if (token->kind != FN_JTOK_NAME) {
        return fn_jparse_fail(p, token->line, "expected name or number");
    }
    fn_jnode *node = fn_jparse_node(p, FN_JN_GETATTR, line);
    if (node == NULL) {
        return NULL;
    }
    node->a = object;
    node->name = token->text;
    node->value = fn_jstr_view(p->run, token->text, token->n, false);
    return fn_j_failed(node->value) ? NULL : fn_jparse_done(p, node);
}

static bool parse_argument(fn_jparser *p, fn_jcallargs *args, int line) {
    const fn_jtok *name = fn_jparse_look(p, 0);
    bool star = fn_jparse_is_op(p, '*');
    bool stars = fn_jparse_is_op(p, FN_JOP_POW);
    const fn_jtok *after = name->kind == FN_JTOK_NAME ? fn_jparse_look(p, 1) : NULL;
    bool keyword = after != NULL && after->kind == FN_JTOK_OPERATOR && after->op == FN_JOP_ASSIGN;
    bool wrong = args->rest_keywords != NULL || ((star || (!stars && !keyword)) && args->rest) ||
                 (!star && !stars && !keyword && args->n_keywords > 0);
    if (wrong) {
        return fn_jparse_fail(p, line, "invalid syntax for function call expression") != NULL;
    }
    for (int skip = star || stars ? 1 : keyword ? 2 : 0; skip > 0; skip--) {
        fn_jparse_next(p);
    }
    fn_jnode *value = fn_jparse_expression(p);
    if (value == NULL) {
        return false;
    }
    if (star) {
        args->rest = value;
    } else if (stars) {
        args->rest_keywords = value;
    } else if (keyword) {
        void *keywords = args->keywords;
        if (!fn_jrun_reserve(p->run, &keywords, &args->capacity, args->n_keywords + 1,
                             sizeof *args->keywords)) {
            return false;
        }
        args->keywords = keywords;
        args->keywords[args->n_keywords++] = (fn_jkwarg){.name = name->text, .value = value};
    } else {
        return fn_jparse_push(p, &args->positional, value);
    }
    return true;
}

static fn_jcallargs *parse_arguments(fn_jparser *p) {
    int line = line_of(p);
    fn_jcallargs *args = fn_jrun_array(p->run, 1, sizeof *args);
    if (args == NULL || !fn_jparse_expect_op(p, '(')) {
        return NULL;
    }
    bool more = false;
    while (!fn_jparse_is_op(p, ')')) {
        if (more && !fn_jparse_expect_op(p, ',')) {
            return NULL;
        }
        if (more && fn_jparse_is_op(p, ')')) {
            break;
        }
        if (!parse_argument(p, args, line)) {
            return NULL;
        }
        more = true;
    }
    return fn_jparse_expect_op(p, ')') ? args : NULL;
}

static fn_jnode *parse_call(fn_jparser *p, fn_jnode *callee) {
    fn_jnode *node = fn_jparse_node(p, FN_JN_CALL, line_of(p));
    if (node == NULL) {
        return NULL;
    }
    node->a = callee;
    node->args = parse_arguments(p);
    return node->args != NULL ? fn_jparse_done(p, node) : NULL;
}

static fn_jnode *parse_postfix(fn_jparser *p, fn_jnode *node) {
    while (node != NULL) {
        int line = line_of(p);
        if (fn_jparse_skip_op(p, '.')) {
            node = parse_attribute(p, node, line);
        } else if (fn_jparse_skip_op(p, '[')) {
            node = parse_index(p, node, line);
        } else if (fn_jparse_is_op(p, '(')) {
            node = parse_call(p, node);
        } else {
            break;
        }
    }
    return node;
}

static const char *dotted_name(fn_jparser *p) {
    const char *name = fn_jparse_expect_name(p);
    while (name != NULL && fn_jparse_skip_op(p, '.')) {
        const char *more = fn_jparse_expect_name(p);
        name = more != NULL ? fn_jrun_format(p->run, "%s.%s", name, more) : NULL;
    }
    return name;
}

fn_jnode *fn_jparse_filters(fn_jparser *p, fn_jnode *node, bool start_inline) {
    while (start_inline || fn_jparse_is_op(p, '|')) {
        if (!start_inline) {
            fn_jparse_next(p);
        }
        start_inline = false;
        fn_jnode *filter = fn_jparse_node(p, FN_JN_FILTER, line_of(p));
        if (filter == NULL) {
            return NULL;
        }
        filter->a = node;
        filter->name = dotted_name(p);
        if (filter->name == NULL) {
            return NULL;
        }
        filter->builtin = fn_jfilter_find(filter->name, strlen(filter->name));
        if (filter->builtin == NULL) {
            return fn_jparse_fail(p, filter->line, "No filter named '%s'.", filter->name);
        }
        if (fn_jparse_is_op(p, '(')) {
            filter->args = parse_arguments(p);
            if (filter->args == NULL) {
                return NULL;
            }
        }
        node = fn_jparse_done(p, filter);
        if (node == NULL) {
            return NULL;
        }
    }
    return node;
}

static bool starts_argument(const fn_jparser *p) {
    const fn_jtok *token = fn_jparse_look(p, 0);
    if (token->kind == FN_JTOK_OPERATOR) {
        return token->op == '(' || token->op == '[' || token->op == '{';
    }
    if (token->kind == FN_JTOK_NAME) {
        return !fn_jparse_is_name(p, "else") && !fn_jparse_is_name(p, "or") &&
               !fn_jparse_is_name(p, "and");
    }
    return token->kind == FN_JTOK_STRING || token->kind == FN_JTOK_INTEGER ||
           token->kind == FN_JTOK_FLOAT;
}

static bool parse_test_arguments(fn_jparser *p, fn_jnode *test) {
    if (fn_jparse_is_op(p, '(')) {
        test->args = parse_arguments(p);
        return test->args != NULL;
    }
    if (!starts_argument(p)) {
        return true;
    }
    if (fn_jparse_is_name(p, "is")) {
        return fn_jparse_fail(p, line_of(p), "You cannot chain multiple tests with is") != NULL;
    }
    test->args = fn_jrun_array(p->run, 1, sizeof *test->args);
    return test->args != NULL &&
           fn_jparse_push(p, &test->args->positional, parse_postfix(p, parse_primary(p, false)));
}

static fn_jnode *parse_test(fn_jparser *p, fn_jnode *value) {
    int line = line_of(p);
    fn_jparse_next(p);
    bool negated = fn_jparse_skip_name(p, "not");
    fn_jnode *test = fn_jparse_node(p, FN_JN_TEST, line);
    if (test == NULL) {
        return NULL;
    }
    test->a = value;
    test->name = dotted_name(p);
    if (test->name == NULL) {
        return NULL;
    }
    test->builtin = fn_jtest_find(test->name, strlen(test->name));
    if (test->builtin == NULL) {
        return fn_jparse_fail(p, line, "No test named '%s'.", test->name);
    }
    if (!parse_test_arguments(p, test)) {
        return NULL;
    }
    fn_jnode *node = fn_jparse_done(p, test);
    if (node == NULL || !negated) {
        return node;
    }
    fn_jnode *not_node = fn_jparse_node(p, FN_JN_NOT, line);
    if (not_node == NULL) {
        return NULL;
    }
    not_node->a = node;
    return fn_jparse_done(p, not_node);
}

static fn_jnode *parse_filters_and_tests(fn_jparser *p, fn_jnode *node) {
    while (node != NULL) {
        if (fn_jparse_is_op(p, '|')) {
            node = fn_jparse_filters(p, node, false);
        } else if (fn_jparse_is_name(p, "is")) {
            node = parse_test(p, node);
        } else if (fn_jparse_is_op(p, '(')) {
            node = parse_call(p, node);
        } else {
            break;
        }
    }
    return node;
}

static fn_jnode *parse_unary(fn_jparser *p, bool with_filter) {
    int line = line_of(p);
    fn_jnode *node = NULL;
    if (fn_jparse_is_op(p, '-') || fn_jparse_is_op(p, '+')) {
        bool minus = fn_jparse_is_op(p, '-');
        fn_jparse_next(p);
        fn_jnode *inner = fn_jparse_enter(p) ? parse_unary(p, false) : NULL;
        p->depth--;
        node = inner != NULL ? fn_jparse_node(p, minus ? FN_JN_NEG : FN_JN_POS, line) : NULL;
        if (node != NULL) {
            node->a = inner;
            node = fn_jparse_done(p, node);
        }
    } else {
        node = parse_primary(p, false);
    }
    node = parse_postfix(p, node);
    return with_filter ? parse_filters_and_tests(p, node) : node;
}

static bool can_assign(const fn_jnode *node) {
    if (node->kind == FN_JN_TUPLE) {
        for (size_t i = 0; i < node->items.n; i++) {
            if (!can_assign(node->items.items[i])) {
                return false;
            }
        }
        return true;
    }
    return node->kind == FN_JN_NAME || node->kind == FN_JN_NSREF;
}

fn_jnode *fn_jparse_target(fn_jparser *p, fn_jtuple_rule rule) {
    rule.simplified = true;
    fn_jnode *node = fn_jparse_tuple(p, rule);
    if (node == NULL || can_assign(node)) {
        return node;
    }
    const char *what = node->kind == FN_JN_TUPLE  ? "tuple"
                       : node->kind == FN_JN_LIST ? "list"
                       : node->kind == FN_JN_DICT ? "dict"
                                                  : "const";
    return fn_jparse_fail(p, node->line, "can't assign to '%s'", what);
}
