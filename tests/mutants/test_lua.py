"""What counts as a change of a script, and how one fits into a program."""

import unittest

from lua import changes, fitted
from mutants_lua import SCRIPTS


def afters(script: str) -> list[str]:
    return [change.after for change in changes(script)]


class Changes(unittest.TestCase):
    def assert_changes(self, script: str, *expected: str) -> None:
        self.assertEqual(afters(script), list(expected))

    def test_a_comparison_becomes_its_neighbour_and_its_opposite(self):
        self.assert_changes("local x = a < b", "local x = a <= b", "local x = a >= b")
        self.assert_changes("local x = a >= b", "local x = a > b", "local x = a < b")
        self.assert_changes("local x = a == b", "local x = a ~= b")
        self.assert_changes("local x = a ~= b", "local x = a == b")

    def test_conditions_are_combined_and_negated_otherwise(self):
        self.assert_changes("local x = a and b or c", "local x = a or b or c", "local x = a and b and c")
        self.assert_changes("local x = not a", "local x = a")
        self.assert_changes("local x = true", "local x = false")

    def test_a_number_becomes_its_neighbours_and_signs_change(self):
        self.assert_changes("local x = 0", "local x = 1")
        self.assert_changes("local x = 1", "local x = 0", "local x = 2")
        self.assert_changes("local x = 60000", "local x = 59999", "local x = 60001")
        self.assert_changes("local x = a + b", "local x = a - b")
        self.assert_changes("local x = a * b", "local x = a / b")
        self.assert_changes("local x = a:sub(1)", "local x = a:sub(2)")
        self.assert_changes("local x = sub(a, 1)", "local x = sub(a, 2)")

    def test_an_if_is_always_or_never_taken_and_a_loop_never(self):
        self.assert_changes("if a then return end", "if true then return end", "if false then return end")
        self.assert_changes("if a then return elseif b then return end",
                            "if true then return elseif b then return end",
                            "if false then return elseif b then return end",
                            "if a then return elseif true then return end",
                            "if a then return elseif false then return end")
        self.assert_changes("while a do break end", "while false do break end")

    def test_a_command_becomes_a_sibling_and_its_call_is_left_out(self):
        self.assert_changes("redis.call('HDEL', part)", "", "redis.call('HEXISTS', part)")
        self.assert_changes("call('ZADD', pending, 'NX', at)", "", "call('ZADD', pending, 'XX', at)")
        self.assert_changes("local x = call('HSET', part)", "local x = call('HSETNX', part)")

    def test_a_field_becomes_another_one_of_the_script(self):
        self.assert_changes("local x, y = t['$expires_at'], t['$guard']",
                            "local x, y = t['$guard'], t['$guard']",
                            "local x, y = t['$expires_at'], t['$expires_at']")

    def test_a_pattern_loses_its_anchors_or_matches_something_else(self):
        self.assert_changes("local x = a:match('^h(%d+)$')", "local x = a:match('h(%d+)$')", "local x = a:match('^h(%d+)')")
        self.assert_changes("local x = a:match('%d+')", "local x = a:match('x')")

    def test_a_text_becomes_empty_and_a_digit_the_other(self):
        self.assert_changes("local x = 'closed'", "local x = ''")
        self.assert_changes("local x = ''", "local x = 'x'")
        self.assert_changes("local x = '1'", "local x = '0'")
        self.assert_changes("local x = format('%03d', a)", "local x = format('', a)", "local x = format('%d', a)")

    def test_a_statement_without_a_result_is_left_out(self):
        self.assert_changes("a = b", "")
        self.assert_changes("local a\nfor i = b, c do table.insert(a, i) end", "for i = b, c do end")

    def test_returned_values_change_places(self):
        self.assert_changes("return a, b", "return b, a")
        self.assert_changes("return {a, b, c}", "return {b, a, c}")
        self.assert_changes("return a", *[])

    def test_comments_and_texts_are_not_taken_for_code(self):
        self.assert_changes("-- if a == 1 then redis.call('DEL', b) end\nlocal x = y")
        self.assert_changes("local x = 'a < b and not c == 1'", "local x = ''")

    def test_the_flags_of_a_script_are_left_out(self):
        self.assert_changes("#!lua flags=no-writes\nlocal x = y", "#!lua")

    def test_a_change_is_told_by_the_text_of_its_lines(self):
        script = "-- x\nlocal a\n  if a   == 1 then return end\n"
        found = changes(script)[0]
        self.assertEqual((found.line, found.before, found.after),
                         (3, "if a == 1 then return end", "if true then return end"))
        self.assertEqual(found.apply(script), "-- x\nlocal a\n  if true then return end\n")

    def test_a_changed_script_is_as_long_as_before(self):
        script = "#!lua flags=x\n-- a comment\nlocal x = a < b\n"
        for change in changes(script):
            text = fitted(script, change)
            self.assertEqual(len(text.encode()), len(script.encode()))
            self.assertEqual(text.rstrip().splitlines()[-1], change.apply(script).splitlines()[-1])
        with self.assertRaises(ValueError):
            fitted("local x = a < b", changes("local x = a < b")[0])

    def test_each_script_of_the_project_has_changes_that_fit(self):
        for path in SCRIPTS:
            script = path.read_text()
            found = changes(script)
            self.assertGreater(len(found), 2, path)
            for change in found:
                self.assertEqual(len(fitted(script, change).encode()), len(script.encode()))
                self.assertNotEqual(change.before, change.after)


if __name__ == "__main__":
    unittest.main()
