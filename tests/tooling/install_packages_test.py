#!/usr/bin/env python3
"""What install_packages of scripts/common.sh asks of the system, with programs of our own in place
of dpkg-query, apt-get, sudo and id, and no others: nothing is installed, and no network is needed.

usage: install_packages_test.py ROOT
       install_packages_test.py --self-test     prove that what the function lacks is noticed
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = {
    # Packages that were removed may have left their configuration.
    'dpkg-query': '''for name; do :; done
case $name in
  present*) echo installed ;;
  removed) echo config-files ;;
  *) echo "no packages found matching $name" >&2; exit 1 ;;
esac''',
    'id': 'echo "$USER_ID"',
    'sudo': 'export AS_ROOT=sudo; exec "$@"',
    'apt-get': '''words=()
for word; do [[ $word == -* ]] || words+=("$word"); done
echo $AS_ROOT $DEBIAN_FRONTEND "${words[@]}" >> "$CALLS"
[ "$1" != install ] || [[ " $* " == *" -y "* ]] || exit 9
mapfile -t calls < "$CALLS"
statuses=($STATUSES)
exit "${statuses[${#calls[@]} - 1]}"''',
}
ASKED = 'present missing removed'
INSTALL, UPDATE = 'noninteractive install missing removed', 'update'

# Packages, the user, how calls of apt-get end; what they should be, and whether all of it succeeds.
CASES = [
    ('present present-too', 0, '', [], True),
    ('present present-too', 1000, '', [], True),
    (ASKED, 0, '0', [INSTALL], True),
    (ASKED, 1000, '0', [f'sudo {INSTALL}'], True),
    (ASKED, 0, '100 0 0', [INSTALL, UPDATE, INSTALL], True),
    (ASKED, 1000, '100 0 0', [f'sudo {INSTALL}', f'sudo {UPDATE}', f'sudo {INSTALL}'], True),
    (ASKED, 0, '100 100', [INSTALL, UPDATE], False),
    (ASKED, 0, '100 0 100', [INSTALL, UPDATE, INSTALL], False),
]

# Parts of common.sh, and what may stand there by mistake.
MISTAKES = [
    ('[ ${#missing[@]} -gt 0 ] || return 0', ''), ('!= installed', '= ""'), (' -y ', ' '),
    ('[ "$(id -u)" -eq 0 ] || ', ''), ('as_root=(sudo)', ':'), ('DEBIAN_FRONTEND=', 'FRONTEND='),
    ('"${as_root[@]}" apt-get update', 'apt-get update'), (' || { ', ' && { '),
    (' && "${install[@]}" >&2; }', '; }'), ('apt-get update -q >&2 &&', 'true &&'),
]


def problems(text):
    """Of a common.sh with this text."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / 'common.sh').write_text(text)
        bash = shutil.which('bash')
        for program, body in PROGRAMS.items():
            (folder / program).write_text(f'#!{bash}\n{body}\n')
            (folder / program).chmod(0o755)
        for program in ('dirname', 'env'):
            (folder / program).symlink_to(shutil.which(program))
        calls = folder / 'calls'
        for asked, user, statuses, wanted, succeeds in CASES:
            calls.write_text('')
            done = subprocess.run(
                [bash, '-c', f'. {folder}/common.sh; install_packages {asked}'], check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env={'PATH': name, 'USER_ID': str(user), 'STATUSES': statuses, 'CALLS': str(calls)})
            made = calls.read_text().splitlines()
            if made != wanted or (done.returncode == 0) != succeeds:
                found.append(f'user {user} asks for {asked!r}, apt-get ends with {statuses!r}: it '
                             f'was asked for {made}, expected {wanted}; ended with '
                             f'{done.returncode}:\n{done.stdout}')
    return found


def main():
    testing_itself = sys.argv[1] == '--self-test'
    root = pathlib.Path(__file__).parents[2] if testing_itself else pathlib.Path(sys.argv[1])
    text = (root / 'scripts/common.sh').read_text()
    found = problems(text)
    if testing_itself:
        found += [f'{part!r} is not there once' for part, _ in MISTAKES if text.count(part) != 1]
        found += [f'{mistake!r} instead of {part!r} is not noticed' for part, mistake in MISTAKES
                  if not problems(text.replace(part, mistake))]
    print('\n'.join(found) or f'{len(CASES)} cases are right')
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
