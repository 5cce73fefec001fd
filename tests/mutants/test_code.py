"""What a change of the code looks like behind its switch."""

import unittest
from pathlib import Path

from judges import Verdict
from mutants_code import WHOLE, Judge
from switches import Change, marked, switched


def change(source: str, genre: str, old: str, new: str) -> Change:
    """The change of the first `old` to `new`, as cargo-mutants tells it."""
    start = source.index(old)
    return Change("shared/src/domain/x.rs", 1, genre, len(source[:start].encode()), len(source[:start + len(old)].encode()), new, "", "")


class Switches(unittest.TestCase):
    def assert_switched(self, source: str, changes: list[tuple[str, str, str]], expected: str) -> None:
        numbered = {number: change(source, *each) for number, each in enumerate(changes, 1)}
        result = switched(source.encode(), numbered, "crate", set())
        self.assertEqual((result.text, result.refused, result.impossible), (expected, {}, {}))

    def assert_refused(self, source: str, genre: str, old: str, new: str, reason: str, constant: set[str] = set()) -> None:
        result = switched(source.encode(), {1: change(source, genre, old, new)}, "crate", constant)
        self.assertEqual((result.text, result.refused | result.impossible), (source, {1: reason}))

    def test_what_the_source_has_gives_the_type(self):
        self.assert_switched(
            "fn f() { a < b }",
            [("BinaryOperator", "<", "<="), ("BinaryOperator", "<", ">")],
            "fn f() { (if crate::changed_none(&[1, 2]) { a < b } else if crate::changed(1) {/*1*/ a <= b } "
            "else if crate::changed(2) {/*2*/ a > b } else { unreachable!() }) }",
        )

    def test_an_operator_takes_all_of_its_expression_with_it(self):
        # With || for the first &&, the second binds stronger.
        self.assert_switched(
            "fn f() { a && b && !c }",
            [("BinaryOperator", "&&", "||"), ("UnaryOperator", "!", "")],
            "fn f() { (if crate::changed_none(&[1, 2]) { a && b && !c } else if crate::changed(1) {/*1*/ a || b && !c } "
            "else if crate::changed(2) {/*2*/ a && b && c } else { unreachable!() }) }",
        )
        self.assert_switched(
            "fn f() { x += (a + b); }",
            [("BinaryOperator", "+=", "-="), ("BinaryOperator", "+ b", "- b")],
            "fn f() { (if crate::changed_none(&[1]) { x += ((if crate::changed_none(&[2]) { a + b } else if crate::changed(2) {/*2*/ a - b } "
            "else { unreachable!() })) } else if crate::changed(1) {/*1*/ x -= (a + b) } else { unreachable!() }); }",
        )

    def test_a_change_is_on_one_line_without_comments(self):
        self.assert_switched(
            "fn f() { a // 金\n  < b }",
            [("BinaryOperator", "<", ">")],
            "fn f() { (if crate::changed_none(&[1]) { a // 金\n  < b } else if crate::changed(1) {/*1*/ a    > b } else { unreachable!() }) }",
        )

    def test_a_function_returns_at_its_begin_and_is_not_computed_by_the_compiler(self):
        self.assert_switched(
            "const fn f() -> u8 { a }", [("FnValue", "a", "0")], "      fn f() -> u8 { if crate::changed(1) {/*1*/ return 0; } a }")

    def test_an_arm_is_left_out_if_another_one_takes_all_values(self):
        self.assert_switched(
            "fn f() { match a { X(b) => b, Y if c || d => e, _ => f } }",
            [("MatchArm", "X(b) => b,", ""), ("MatchArm", "Y if c || d => e,", ""), ("MatchArmGuard", "c || d", "true")],
            "fn f() { match a { X(b) if !crate::changed(1)/*1*/ => b, Y if !crate::changed(2)/*2*/ && ("
            "(if crate::changed_none(&[3]) { c || d } else if crate::changed(3) {/*3*/ true } else { unreachable!() })) => e, _ => f } }",
        )
        self.assert_refused("fn f() { match a { X => b, _ if c => d, Y => e } }", "MatchArm", "X => b,", "", "no other arm takes all values")

    def test_a_field_has_the_value_of_the_rest(self):
        self.assert_switched(
            "fn f() { S { a, b: c, ..d() } }",
            [("StructField", "a,", ""), ("StructField", "b: c,", "")],
            "fn f() { S { a: if crate::changed(1) {/*1*/ (d()).a } else { a }, b: if crate::changed(2) {/*2*/ (d()).b } else { c }, ..d() } }",
        )

    def test_what_can_not_be_switched_is_told(self):
        self.assert_refused("const A: u8 = 1 + 2;", "BinaryOperator", "+", "-", "the compiler computes it")
        self.assert_refused("fn f() { const A: u8 = 1 + 2; }", "BinaryOperator", "+", "-", "the compiler computes it")
        self.assert_refused("const fn f() -> u8 { 1 }", "FnValue", "1", "0", "the compiler computes it", {"f"})
        self.assert_refused("fn f() -> impl Iterator { a }", "FnValue", "a", "b", "the function's type has no name")
        self.assert_refused("fn f() { if a && let b = c {} }", "BinaryOperator", "&&", "||", "a let is no operand")

    def test_an_error_is_about_the_change_before_it(self):
        text = "a {/*1*/ b } else {/*2*/ c }"
        self.assertEqual([marked(text.encode(), text.index(letter) + 1) for letter in "abc"], [None, 1, 2])
        self.assertIsNone(marked(b"/*1*/ a\n\n\nb", 11))

    def test_a_change_is_told_by_its_lines_and_a_functions_by_its_name(self):
        source = "// 金\nfn f() -> u8 {\n    a   + b\n}\n"
        span = {"start": {"line": 3, "column": 9}, "end": {"line": 3, "column": 10}}
        listed = {"file": "functions/settle/src/lib.rs", "genre": "BinaryOperator", "span": span, "replacement": "-", "function": None}
        found = Change.read(listed, source)
        self.assertEqual((found.line, found.before, found.after, source.encode()[found.start:found.end]), (3, "a + b", "a - b", b"+"))
        span = {"start": {"line": 3, "column": 5}, "end": {"line": 3, "column": 12}}
        function = {"function_name": "f", "return_type": "-> u8"}
        found = Change.read({**listed, "genre": "FnValue", "span": span, "replacement": "0", "function": function}, source)
        self.assertEqual((found.before, found.after), ("f -> u8", "0"))

    def test_the_table_has_a_line_for_each_module(self):
        files = {"functions/settle/src/lib.rs": "functions/settle", "shared/src/service/view/live.rs": "service/view",
                 "shared/src/service/send.rs": "service", "shared/src/domain/split.rs": "domain/split", "shared/src/domain/part.rs": "domain"}
        for file, module in files.items():
            self.assertEqual(Change(file, 1, "", 0, 0, "", "", "").module(), module)


class Scripted(Judge):
    """A judge whose runs end as a test says."""

    def run(self, tests: list[str], timeout_s: float, **environment: str) -> Verdict:
        self.asked.append(list(tests))
        return self.verdicts.pop(0)


class Judges(unittest.TestCase):
    def judged(self, *verdicts: Verdict) -> tuple[Verdict, list[list[str]]]:
        judge = Scripted(WHOLE, Path(), Path(), {"a": 1.0, "b": 2.0}, {"a": {7}, "b": {7}})
        judge.asked, judge.verdicts = [], list(verdicts)
        return judge.judge(7), judge.asked

    def test_a_test_of_the_whole_that_fails_once_leaves_the_others_to_judge(self):
        failed, passed = Verdict("noticed", "a", 1.0), Verdict("survived", "", 1.0)
        self.assertEqual(self.judged(failed, passed, passed), (passed, [["a", "b"], ["a"], ["b"]]))
        self.assertEqual(self.judged(failed, failed), (Verdict("noticed", "a", 2.0), [["a", "b"], ["a"]]))
        of_another = Verdict("noticed", "b", 1.0)
        self.assertEqual(self.judged(failed, passed, of_another, of_another), (Verdict("noticed", "b", 2.0), [["a", "b"], ["a"], ["b"], ["b"]]))
        self.assertEqual(self.judged(failed, passed, of_another, passed), (passed, [["a", "b"], ["a"], ["b"], ["b"]]))


if __name__ == "__main__":
    unittest.main()
