# SPDX-License-Identifier: GPL-2.0-only
# Finds one thing, the word BAD in a line that is added, and a mail that is not signed off.
my ($name, $line, $bad, $signed) = ("", 0, 0, 0);
open(my $in, "<", $ARGV[-1]) or die "cannot open $ARGV[-1]\n";
while (<$in>) {
    if (/^\+\+\+ b\/(\S+)/) { $name = $1; next; }
    if (/^@@ -\S+ \+(\d+)/) { $line = $1 - 1; next; }
    $signed = 1 if /^Signed-off-by: /;
    $line++ unless /^-/;
    if (/^\+.*BAD/) { print "$name:$line: ERROR:BADNESS: bad\n"; $bad = 1; }
}
if (!$signed) { print "$name:$line: ERROR:MISSING_SIGN_OFF: not signed\n"; $bad = 1; }
exit $bad;
