// SPDX-License-Identifier: Apache-2.0
/// From the knobs that a caller names to a policy: the members that kernels read, the assertions that refuse a wrong
/// knob, and a visitor that describes the policy, all out of one list per operation.
///
/// A list is a macro LIST(op, FORMAT, NUMBER, FLAG, CHOICE) beside its operation (NAME_policy.hpp) that expands
///   FORMAT(op, name, default, (accepted, types), "accepted in words", "meaning")
///   NUMBER(op, name, default, (condition on value), "accepted in words", "meaning")      an int
///   FLAG(op, name, default, "meaning")                                                  a bool
///   CHOICE(op, name, enumeration, default, "accepted in words", "meaning")
/// for each knob. RATIFY_DEFINE_POLICY(op, LIST) makes `op_knobs` and `op_policy<Knobs...>` of it. A rule over several
/// knobs stands in a second macro, RULES(op, RULE), that expands RULE(name, (condition), "text") for each rule, the
/// knobs being the members of `members<Knobs...>`; RATIFY_DEFINE_POLICY_WITH_RULES takes both.
#pragma once

#include <ratify/detail/choices.hpp>
#include <ratify/detail/meta.hpp>
#include <ratify/knobs.hpp>
#include <ratify/status.hpp>

RATIFY_BEGIN_NAMESPACE

/// What an operation's kernels are specialised by: `List` names the operation, `Changed` are the knobs that differ from
/// their defaults, in the order of the list. Spelt through `NAME_policy<Knobs...>`, which brings any knobs in any order
/// to this form, so that equal policies are one type and share their kernels. A wrong knob does not compile, however
/// the policy is named: the assertions are in `List::refuse_wrong`.
template <class List, class... Changed>
struct policy : List::template members<Changed...> {
  static_assert(List::template refuse_wrong<Changed...>());
  using knobs = List;
};

namespace detail {

template <class... Knobs>
struct knob_list {};

template <class... Lists>
struct joined;
template <class... Knobs>
struct joined<knob_list<Knobs...>> {
  using type = knob_list<Knobs...>;
};
template <class... First, class... Second, class... Rest>
struct joined<knob_list<First...>, knob_list<Second...>, Rest...> : joined<knob_list<First..., Second...>, Rest...> {};

template <class List, class Changed>
struct policy_with;
template <class List, class... Changed>
struct policy_with<List, knob_list<Changed...>> {
  using type = policy<List, Changed...>;
};

template <class List, class... Given>
using policy_of = typename policy_with<List, typename List::template changed<Given...>::type>::type;

/// The argument of a knob among those given; `Default` if it is not among them, the first one if it is there twice.
template <template <class> class Knob, class Default, class... Given>
struct given_format {
  using type = Default;
};
template <template <class> class Knob, class Default, class Own, class... Rest>
struct given_format<Knob, Default, Knob<Own>, Rest...> {
  using type = Own;
};
template <template <class> class Knob, class Default, class Other, class... Rest>
struct given_format<Knob, Default, Other, Rest...> : given_format<Knob, Default, Rest...> {};

template <auto Value>
struct constant {
  static constexpr auto value = Value;
  using type = RATIFY_STD::remove_const_t<decltype(Value)>;
};
template <template <auto> class Knob, auto Default, class... Given>
struct given_value : constant<Default> {};
template <template <auto> class Knob, auto Default, auto Own, class... Rest>
struct given_value<Knob, Default, Knob<Own>, Rest...> : constant<Own> {};
template <template <auto> class Knob, auto Default, class Other, class... Rest>
struct given_value<Knob, Default, Other, Rest...> : given_value<Knob, Default, Rest...> {};

template <template <class> class Knob, class Given>
inline constexpr bool is_format_knob = false;
template <template <class> class Knob, class Format>
inline constexpr bool is_format_knob<Knob, Knob<Format>> = true;
template <template <auto> class Knob, class Given>
inline constexpr bool is_value_knob = false;
template <template <auto> class Knob, auto Value>
inline constexpr bool is_value_knob<Knob, Knob<Value>> = true;

/// How many times a knob is among those given.
template <template <class> class Knob, class... Given>
inline constexpr int times_format = (0 + ... + (is_format_knob<Knob, Given> ? 1 : 0));
template <template <auto> class Knob, class... Given>
inline constexpr int times_value = (0 + ... + (is_value_knob<Knob, Given> ? 1 : 0));

template <class... Given>
inline constexpr bool are_knobs = (true && ... && is_knob<Given>);

/// A given value if it has the type that is asked for, else `fallback`.
template <class Wanted, class Given>
RATIFY_HD constexpr Wanted value_as(Wanted fallback) {
  if constexpr (RATIFY_STD::is_same_v<typename Given::type, Wanted>)
    return Given::value;
  else
    return fallback;
}

RATIFY_HD constexpr bool equal_text(char const* a, char const* b) {
  for (; *a != '\0' && *a == *b; ++a) ++b;
  return *a == *b;
}

/// A storage format as a value, for visitors.
template <class Format>
struct format_value {
  using type = Format;
};

}  // namespace detail

/// An operation under a policy: `operation_with<attention, attention_policy<head_dim<64>>>` is
/// `attention<head_dim<64>>`. For code that is given a policy as a type.
template <template <class...> class Operation, class Policy>
struct operation_with_policy;
template <template <class...> class Operation, class List, class... Changed>
struct operation_with_policy<Operation, policy<List, Changed...>> {
  using type = Operation<Changed...>;
};
template <template <class...> class Operation, class Policy>
using operation_with = typename operation_with_policy<Operation, Policy>::type;

/// What the visitor of a policy is told of a knob, beside its value.
struct knob_description {
  char const* name;
  char const* accepted;  ///< in words
  char const* meaning;
};

RATIFY_END_NAMESPACE

#define RATIFY_UNPACKED(...) __VA_ARGS__

// What a knob of a list contributes to `NAME_knobs` ------------------------------------------------------------------

// How a given argument is judged.
#define RATIFY_ACCEPT_FORMAT(op, name, standard, accepted, words, meaning) \
  template <class Format>                                                  \
  static constexpr bool accepts_##name = detail::is_one_of_v<Format, RATIFY_UNPACKED accepted>;
#define RATIFY_ACCEPT_NUMBER(op, name, standard, condition, words, meaning) \
  RATIFY_HD static constexpr bool accepts_##name(int value) { return condition; }
#define RATIFY_ACCEPT_FLAG(op, name, standard, meaning) \
  RATIFY_HD static constexpr bool accepts_##name(bool) { return true; }
#define RATIFY_ACCEPT_CHOICE(op, name, enumeration, standard, words, meaning) \
  RATIFY_HD static constexpr bool accepts_##name(enumeration value) { return detail::is_choice(value); }

// The member that kernels read. A wrong argument leaves the default, so that the assertion is the only error.
#define RATIFY_MEMBER_FORMAT(op, name, standard, accepted, words, meaning)                                 \
  using name = RATIFY_STD::conditional_t<                                                                  \
      op##_knobs::accepts_##name<typename detail::given_format<::ratify::name, standard, Given...>::type>, \
      typename detail::given_format<::ratify::name, standard, Given...>::type, standard>;
#define RATIFY_MEMBER_VALUE(op, name, type, standard)                                                 \
  static constexpr type name =                                                                        \
      op##_knobs::accepts_##name(                                                                     \
          detail::value_as<type, detail::given_value<::ratify::name, standard, Given...>>(standard))  \
          ? detail::value_as<type, detail::given_value<::ratify::name, standard, Given...>>(standard) \
          : standard;
#define RATIFY_MEMBER_NUMBER(op, name, standard, condition, words, meaning) RATIFY_MEMBER_VALUE(op, name, int, standard)
#define RATIFY_MEMBER_FLAG(op, name, standard, meaning) RATIFY_MEMBER_VALUE(op, name, bool, standard)
#define RATIFY_MEMBER_CHOICE(op, name, enumeration, standard, words, meaning) \
  RATIFY_MEMBER_VALUE(op, name, enumeration, enumeration::standard)

// The knob itself where it differs from the default.
#define RATIFY_CHANGED_FORMAT(op, name, standard, accepted, words, meaning)                                         \
  RATIFY_STD::conditional_t<RATIFY_STD::is_same_v<typename op##_knobs::template members<Given...>::name, standard>, \
                            detail::knob_list<>,                                                                    \
                            detail::knob_list<::ratify::name<typename op##_knobs::template members<Given...>::name>>>,
#define RATIFY_CHANGED_VALUE(op, name, standard)                                                           \
  RATIFY_STD::conditional_t<op##_knobs::template members<Given...>::name == standard, detail::knob_list<>, \
                            detail::knob_list<::ratify::name<op##_knobs::template members<Given...>::name>>>,
#define RATIFY_CHANGED_NUMBER(op, name, standard, condition, words, meaning) RATIFY_CHANGED_VALUE(op, name, standard)
#define RATIFY_CHANGED_FLAG(op, name, standard, meaning) RATIFY_CHANGED_VALUE(op, name, standard)
#define RATIFY_CHANGED_CHOICE(op, name, enumeration, standard, words, meaning) \
  RATIFY_CHANGED_VALUE(op, name, enumeration::standard)

// Whether an operation has a knob of this name: asked with `text`.
#define RATIFY_HAS_KNOB(op, name, ...) || detail::equal_text(text, #name)

// A visit: description, value, default.
#define RATIFY_VISIT_FORMAT(op, name, standard, accepted, words, meaning)                       \
  visit(knob_description{#name, words, meaning}, detail::format_value<typename Policy::name>{}, \
        detail::format_value<standard>{});
#define RATIFY_VISIT_NUMBER(op, name, standard, condition, words, meaning) \
  visit(knob_description{#name, words, meaning}, int{Policy::name}, int{standard});
#define RATIFY_VISIT_FLAG(op, name, standard, meaning) \
  visit(knob_description{#name, "true or false", meaning}, bool{Policy::name}, bool{standard});
#define RATIFY_VISIT_CHOICE(op, name, enumeration, standard, words, meaning) \
  visit(knob_description{#name, words, meaning}, enumeration{Policy::name}, enumeration::standard);

#if defined(__CUDACC_RTC__)
#define RATIFY_POLICY_VISITOR(op, LIST)
#else
#define RATIFY_POLICY_VISITOR(op, LIST)                                                             \
  /* Calls visit(knob_description, value, default) per knob; a format is a detail::format_value. */ \
  template <class Policy, class Visitor>                                                            \
  static void visit_knobs(Visitor&& visit) {                                                        \
    LIST(op, RATIFY_VISIT_FORMAT, RATIFY_VISIT_NUMBER, RATIFY_VISIT_FLAG, RATIFY_VISIT_CHOICE)      \
  }
#endif

// Refusing a wrong knob: within a template of `NAME_knobs` whose knobs are `Knobs...` ---------------------------------

#define RATIFY_KNOB_NAME(op, name, ...) " " #name
#define RATIFY_KNOB_NAMES(op, LIST) LIST(op, RATIFY_KNOB_NAME, RATIFY_KNOB_NAME, RATIFY_KNOB_NAME, RATIFY_KNOB_NAME)

// RULE(name, (condition), "text") per fault that a knob can have.
#define RATIFY_FOREIGN_FORMAT(name, RULE, op, LIST)                                                     \
  RULE(foreign_##name, (op##_knobs::has(#name) || detail::times_format<::ratify::name, Knobs...> == 0), \
       "ratify::" #op ": " #name " is not one of its knobs:" RATIFY_KNOB_NAMES(op, LIST))
#define RATIFY_FOREIGN_VALUE(name, RULE, op, LIST)                                                     \
  RULE(foreign_##name, (op##_knobs::has(#name) || detail::times_value<::ratify::name, Knobs...> == 0), \
       "ratify::" #op ": " #name " is not one of its knobs:" RATIFY_KNOB_NAMES(op, LIST))

#define RATIFY_TWICE_TEXT(op, name) "ratify::" #op ": " #name " is given more than once"
#define RATIFY_MUST_TEXT(op, name, words) "ratify::" #op ": " #name " must be " words

#define RATIFY_FORMAT_RULES(RULE, op, name, standard, words)                                                        \
  RULE(twice_##name, (detail::times_format<::ratify::name, Knobs...> <= 1), RATIFY_TWICE_TEXT(op, name))            \
  RULE(name, (op##_knobs::accepts_##name<typename detail::given_format<::ratify::name, standard, Knobs...>::type>), \
       RATIFY_MUST_TEXT(op, name, words))
#define RATIFY_VALUE_RULES(RULE, op, name, wanted, type_words, standard, words)                                 \
  RULE(twice_##name, (detail::times_value<::ratify::name, Knobs...> <= 1), RATIFY_TWICE_TEXT(op, name))         \
  RULE(type_##name,                                                                                             \
       (RATIFY_STD::is_same_v<typename detail::given_value<::ratify::name, standard, Knobs...>::type, wanted>), \
       RATIFY_MUST_TEXT(op, name, type_words))                                                                  \
  RULE(name,                                                                                                    \
       (op##_knobs::accepts_##name(                                                                             \
           detail::value_as<wanted, detail::given_value<::ratify::name, standard, Knobs...>>(standard))),       \
       RATIFY_MUST_TEXT(op, name, words))

#define RATIFY_ASSERT_FORMAT(op, name, standard, accepted, words, meaning) \
  RATIFY_FORMAT_RULES(RATIFY_ASSERT_RULE, op, name, standard, words)
#define RATIFY_ASSERT_NUMBER(op, name, standard, condition, words, meaning) \
  RATIFY_VALUE_RULES(RATIFY_ASSERT_RULE, op, name, int, "an int: " words, standard, words)
#define RATIFY_ASSERT_FLAG(op, name, standard, meaning) \
  RATIFY_VALUE_RULES(RATIFY_ASSERT_RULE, op, name, bool, "a bool: true or false", standard, "true or false")
#define RATIFY_ASSERT_CHOICE(op, name, enumeration, standard, words, meaning)                         \
  RATIFY_VALUE_RULES(RATIFY_ASSERT_RULE, op, name, enumeration, "a ratify::" #enumeration ": " words, \
                     enumeration::standard, words)

#define RATIFY_ASSERT_KNOBS(op, LIST)                                                                               \
  static_assert(detail::are_knobs<Knobs...>,                                                                        \
                "ratify::" #op                                                                                      \
                ": a template argument is not a knob, or is const, volatile, a reference or derived from one; the " \
                "knobs are" RATIFY_KNOB_NAMES(op, LIST));                                                           \
  RATIFY_EVERY_KNOB(RATIFY_FOREIGN_FORMAT, RATIFY_FOREIGN_VALUE, RATIFY_ASSERT_RULE, op, LIST)                      \
  LIST(op, RATIFY_ASSERT_FORMAT, RATIFY_ASSERT_NUMBER, RATIFY_ASSERT_FLAG, RATIFY_ASSERT_CHOICE)

#define RATIFY_TEST_FORMAT(op, name, standard, accepted, words, meaning) \
  RATIFY_FORMAT_RULES(RATIFY_TEST_RULE, op, name, standard, words)
#define RATIFY_TEST_NUMBER(op, name, standard, condition, words, meaning) \
  RATIFY_VALUE_RULES(RATIFY_TEST_RULE, op, name, int, "", standard, words)
#define RATIFY_TEST_FLAG(op, name, standard, meaning) \
  RATIFY_VALUE_RULES(RATIFY_TEST_RULE, op, name, bool, "", standard, "")
#define RATIFY_TEST_CHOICE(op, name, enumeration, standard, words, meaning) \
  RATIFY_VALUE_RULES(RATIFY_TEST_RULE, op, name, enumeration, "", enumeration::standard, words)

#define RATIFY_TEST_KNOBS(op, LIST)                                                                                 \
  (detail::are_knobs<Knobs...> RATIFY_EVERY_KNOB(RATIFY_FOREIGN_FORMAT, RATIFY_FOREIGN_VALUE, RATIFY_TEST_RULE, op, \
                                                 LIST)                                                              \
       LIST(op, RATIFY_TEST_FORMAT, RATIFY_TEST_NUMBER, RATIFY_TEST_FLAG, RATIFY_TEST_CHOICE))

// What they make together ---------------------------------------------------------------------------------------------

#define RATIFY_NO_RULES(op, RULE)

/// Defines `op_knobs`, the type that stands for the operation's knob list, and `op_policy<Knobs...>`. `header` is the
/// operation's, the strings after it name its kernels, `$` standing for the policy.
#define RATIFY_DEFINE_POLICY(op, LIST, ...) RATIFY_DEFINE_POLICY_WITH_RULES(op, LIST, RATIFY_NO_RULES, __VA_ARGS__)
#define RATIFY_DEFINE_POLICY_WITH_RULES(op, LIST, RULES, header_name, ...)                                             \
  struct op##_knobs {                                                                                                  \
    static constexpr char const* operation = #op;                                                                      \
    static constexpr char const* header = header_name;                                                                 \
    static constexpr char const* kernels[] = {__VA_ARGS__};                                                            \
    LIST(op, RATIFY_ACCEPT_FORMAT, RATIFY_ACCEPT_NUMBER, RATIFY_ACCEPT_FLAG, RATIFY_ACCEPT_CHOICE)                     \
    RATIFY_HD static constexpr bool has(char const* text) {                                                            \
      return false LIST(op, RATIFY_HAS_KNOB, RATIFY_HAS_KNOB, RATIFY_HAS_KNOB, RATIFY_HAS_KNOB);                       \
    }                                                                                                                  \
    template <class... Given>                                                                                          \
    struct members {                                                                                                   \
      LIST(op, RATIFY_MEMBER_FORMAT, RATIFY_MEMBER_NUMBER, RATIFY_MEMBER_FLAG, RATIFY_MEMBER_CHOICE)                   \
    };                                                                                                                 \
    template <class... Knobs>                                                                                          \
    static constexpr bool supports = RATIFY_TEST_KNOBS(op, LIST) RULES(op, RATIFY_TEST_RULE);                          \
    /* Asserts what `supports` answers. A function, because clang takes nothing more out of a class whose assertion */ \
    /* failed and would report that too. */                                                                            \
    template <class... Knobs>                                                                                          \
    RATIFY_HD static constexpr bool refuse_wrong() {                                                                   \
      RATIFY_ASSERT_KNOBS(op, LIST)                                                                                    \
      RULES(op, RATIFY_ASSERT_RULE)                                                                                    \
      return true;                                                                                                     \
    }                                                                                                                  \
    /* Knobs that break a rule together become the default policy, or that policy would refuse them once more. */      \
    template <class... Knobs>                                                                                          \
    static constexpr bool agree = true RULES(op, RATIFY_TEST_RULE);                                                    \
    template <class... Given>                                                                                          \
    struct changed : RATIFY_STD::conditional_t<                                                                        \
                         refuse_wrong<Given...>() && agree<Given...>,                                                  \
                         detail::joined<LIST(op, RATIFY_CHANGED_FORMAT, RATIFY_CHANGED_NUMBER, RATIFY_CHANGED_FLAG,    \
                                             RATIFY_CHANGED_CHOICE) detail::knob_list<>>,                              \
                         detail::joined<detail::knob_list<>>> {};                                                      \
    RATIFY_POLICY_VISITOR(op, LIST)                                                                                    \
  };                                                                                                                   \
  template <class... Knobs>                                                                                            \
  using op##_policy = detail::policy_of<op##_knobs, Knobs...>;
