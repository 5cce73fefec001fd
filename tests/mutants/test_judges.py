"""What the judges of changes have in common."""

import unittest

from explained import Explained, parse
from judges import Failed, selected


class Lists(unittest.TestCase):
    def test_the_explained_changes_are_read_with_their_reasons(self):
        text = "# Head.\n\n# One reason\n# in two lines.\ngrab.lua\n- a < b\n+ a <= b\n- call()\n+\n\n# Another.\nload.lua\n- x\n+ y\n"
        self.assertEqual(parse(text), [
            Explained("grab.lua", "a < b", "a <= b", "One reason in two lines."),
            Explained("grab.lua", "call()", "", "One reason in two lines."),
            Explained("load.lua", "x", "y", "Another."),
        ])
        for wrong in ["# A.\ngrab.lua\n- a\n", "grab.lua\n- a\n+ b\n", "# A.\ngrab.lua\n+ b\n", "# A.\ngrab.lua\n- a\n+ b\nx y\n"]:
            with self.assertRaises(ValueError, msg=wrong):
                parse(wrong)

    def test_shards_share_all_changes(self):
        every = list("abcabcabca")
        self.assertEqual(sorted(sum((selected(every, str, None, (part, 3)) for part in range(3)), [])), sorted(every))
        self.assertEqual(selected(every, str, ["a", "b"], (0, 2)), list("aaaa"))
        with self.assertRaises(Failed):
            selected(every, str, ["x"], (0, 1))


if __name__ == "__main__":
    unittest.main()
