//! The table of cases. `%GIT%` in a setup makes the folder a repository, `%PY%` is the system's Python.

use kit::testing::needs::Program;

use super::{Case, Then};

/// A row for each case: name, programs that a machine may lack, setup, command, what holds then.
macro_rules! cases {
    ($($name:ident $([$($program:ident),+])?: $setup:literal, $command:literal => $then:ident;)*) => {
        pub(super) const CASES: &[Case] = &[$(Case {
            name: stringify!($name),
            programs: &[$($(Program::$program),+)?],
            setup: $setup,
            command: $command,
            then: Then::$then,
        }),*];
    };
}

cases! {
    // Deleting.
    rm_one_file: "", "rm README" => Undone;
    rm_star: "", "rm -rf *" => DeniedAlone;
    rm_folder: "", "rm -rf src/deep" => Undone;
    rm_empty_file_and_folder: "", "rm docs/nothing; rmdir empty" => Undone;
    rm_links_leaves_their_targets: "", "rm docs/link docs/dangling docs/folder" => Undone;
    find_delete: "", "find src -name '*.h' -delete" => Undone;
    find_exec_rm: "", "find . -name '*.c' -exec rm {} +" => Undone;
    xargs_rm: "", "ls src/*.c | xargs rm -f" => Undone;
    unlink_by_python [SystemPython]: "", "%PY% -c 'import os; os.unlink(\"data/blob\")'" => Undone;
    rmtree_by_python [SystemPython]: "", "%PY% -c 'import shutil; shutil.rmtree(\"src/deep\")'" => Undone;
    rm_and_make_again_as_a_folder: "", "rm README; mkdir README; echo x > README/x" => Undone;
    rm_folder_and_make_a_file: "", "rm -r docs; echo docs > docs" => Undone;
    rm_with_odd_names: "mkdir odd; printf x > \"odd/$(printf 'a\\nb')\"; printf y > 'odd/ -rf'; printf z > \"odd/$(printf '\\377')\"", "rm -rf odd" => Undone;
    rm_deep_folder: "d=.; for i in $(seq 60); do d=$d/deeper; done; mkdir -p $d; echo end > $d/end", "rm -rf deeper" => Undone;
    rm_pipe: "mkfifo pipe", "rm pipe README" => UndoneOrTold;
    rm_file_that_can_t_be_read: "echo secret > data/closed; chmod 000 data/closed", "rm -f data/closed" => Undone;
    rm_all_of_many: "mkdir many; for i in $(seq 45); do echo $i > many/$i; done; mkdir rest; for i in $(seq 200); do echo $i > rest/$i; done", "rm -rf many" => Undone;
    // Overwriting.
    redirect: "", "echo gone > README" => Undone;
    redirect_nothing: "", ": > data/blob" => Undone;
    redirect_appends: "", "echo more >> README; echo more >> data/blob" => Undone;
    tee: "", "echo x | tee README docs/letter > /dev/null" => Undone;
    dd_over_the_middle: "", "dd if=/dev/zero of=data/blob bs=1000 seek=10 count=5 conv=notrunc 2>/dev/null" => Undone;
    truncate_shorter: "", "truncate -s 100 data/blob" => Undone;
    truncate_longer: "", "truncate -s 1000000 data/blob" => Undone;
    cp_over: "", "cp src/1.c README" => Undone;
    mv_over: "", "mv src/1.c README" => Undone;
    mv_folder_into_folder: "", "mv src docs/" => Undone;
    install_over: "", "install -m 600 src/1.c docs/letter" => Undone;
    ln_force: "", "ln -sf src/2.c README" => Undone;
    sed_on_all: "", "sed -i s/file/FILE/ src/*.c" => Undone;
    perl_in_place: "", "perl -pi -e 's/deep/DEEP/' src/deep/er/*.h" => Undone;
    editor_saves_by_rename: "", "cp README README.new; echo more >> README.new; mv README README~; mv README.new README" => Undone;
    shred_and_remove: "", "shred -u README" => Undone;
    append_then_truncate_by_one_descriptor: "", "exec 3>>README; echo more >&3; %PY% -c 'import os; os.ftruncate(3, 0)' || truncate -s 0 README; echo end >&3" => Undone;
    written_by_mmap [SystemPython]: "", "%PY% -c 'import mmap; f = open(\"data/blob\", \"r+b\"); m = mmap.mmap(f.fileno(), 0); m[5:10] = b\"12345\"; m.flush()'" => Undone;
    written_by_pwrite_to_a_read_write_file [SystemPython]: "", "%PY% -c 'import os; f = os.open(\"data/blob\", os.O_RDWR); os.pwrite(f, b\"zz\", 100)'" => Undone;
    hole_is_punched: "", "fallocate -p -o 0 -l 8192 data/blob" => Undone;
    database_is_rewritten_in_place [SystemPython]: "%PY% -c 'import sqlite3; c = sqlite3.connect(\"data/db\"); c.execute(\"create table t(x)\"); c.executemany(\"insert into t values(?)\", [(str(i) * 50,) for i in range(2000)]); c.commit()'", "%PY% -c 'import sqlite3; c = sqlite3.connect(\"data/db\"); c.execute(\"delete from t\"); c.commit(); c.execute(\"vacuum\")'" => Undone;
    file_of_two_names_is_written: "ln data/blob data/second", "echo x > data/second" => Undone;
    one_of_two_names_is_removed: "ln data/blob data/second", "rm data/blob" => Undone;
    both_names_are_removed: "ln data/blob data/second", "rm data/blob data/second" => Undone;
    one_of_two_names_is_removed_and_the_other_written: "ln data/blob data/second", "rm data/blob; echo x > data/second" => Undone;
    one_of_two_names_is_replaced: "ln data/blob docs/second", "sed -i s/x/y/ docs/second" => Undone;
    names_are_swapped: "ln src/1.c src/one; ln src/2.c src/two", "ln -f src/1.c src/two; ln -f src/2.c src/one; echo x > src/one; rm src/1.c" => Undone;
    second_name_of_a_call_before_the_write: "", "ln data/blob second; echo x > second; rm second" => Undone;
    written_through_a_link: "", "echo x > docs/link" => Undone;
    written_through_a_linked_folder: "", "echo x > docs/folder/2.c; rm docs/folder/3.c" => Undone;
    written_through_a_descriptor_path: "", "exec 3<>README; echo x > /proc/self/fd/3" => Undone;
    // Metadata.
    chmod_nothing: "", "chmod -R 000 src docs" => Undone;
    chmod_one: "", "chmod 777 docs/letter" => Undone;
    touch_all: "", "find . -exec touch {} +" => Undone;
    mode_and_content: "", "chmod 600 src/run.sh; echo x >> src/run.sh; chmod 400 src/run.sh" => Undone;
    // Moving.
    rename_folder: "", "mv src source" => Undone;
    rename_folder_and_change_in_it: "", "mv src source; echo x > source/1.c; rm source/2.c; echo new > source/new" => Undone;
    rename_chain: "", "mv src a; mv docs src; mv a docs" => Undone;
    rename_files_in_a_ring: "", "mv src/1.c t; mv src/2.c src/1.c; mv src/3.c src/2.c; mv t src/3.c" => Undone;
    rename_a_folder_into_a_new_one: "", "mkdir new; mv src docs data new/; echo x > new/src/1.c" => Undone;
    move_and_replace: "", "mv src old; mkdir src; echo other > src/1.c; rm -r old" => DeniedAlone;
    // Links are swapped.
    folder_is_swapped_for_a_link: "", "mv docs elsewhere; ln -s elsewhere docs; echo x > docs/letter" => Undone;
    link_is_swapped_for_a_folder: "", "rm docs/folder; mkdir docs/folder; echo x > docs/folder/1.c" => Undone;
    link_leads_out_after_a_write: "", "echo x > README; rm README; ln -s /etc/hostname README" => Undone;
    // Creating.
    new_files_and_folders: "", "mkdir -p a/b/c; echo x > a/b/c/x; ln -s x a/l; ln README second; mkfifo p; echo y > docs/y" => Undone;
    copy_of_everything: "", "cp -a src copy" => Undone;
    archive_over_files: "tar cf data/all.tar src; echo changed > src/1.c", "tar xf data/all.tar; tar xf data/all.tar -C docs" => Undone;
    // Programs that wipe.
    build_script_that_wipes: "printf 'clean:\\n\\trm -rf src/deep data/*\\n' > Makefile", "make -s clean || { rm -rf src/deep; rm -f data/blob; }" => Undone;
    script_that_wipes_and_fails: "", "set -e; rm -rf docs; false; echo never" => Undone;
    node_script [Node]: "printf '{\"scripts\": {\"clean\": \"rm -rf src/deep\"}}' > package.json", "node -e 'require(\"fs\").rmSync(\"src/deep\", {recursive: true})'" => Undone;
    mirror_deletes: "mkdir backup; echo only > backup/only", "cd src && for f in $(find . -type f); do [ -e ../backup/$f ] || rm $f; done; cp ../backup/* ." => DeniedAlone;
    background_process_writes: "", "(sleep 0.3; echo late > README; rm docs/letter) & wait" => Undone;
    many_processes_write: "", "for i in 1 2 3 4 5 6; do (echo $i > src/$i.c; rm src/deep/er/$i.h) & done; wait" => Undone;
    rsync_deletes [Rsync]: "mkdir backup; echo only > backup/only; cp README backup/", "rsync -a --delete backup/ src/" => Undone;
    npm_script [Npm]: "printf '{\"scripts\": {\"clean\": \"rm -rf src/deep data/blob; echo x > README\"}}' > package.json", "npm run --silent clean" => Undone;
    // git.
    rm_the_repository [Git]: "%GIT%", "rm -rf .git a" => Denied;
    rm_one_object [Git]: "%GIT%", "f=$(find .git/objects -type f | sort | head -n 1); rm -f $f" => Denied;
    rm_refs [Git]: "%GIT%", "rm -f .git/refs/heads/main" => Denied;
    head_is_overwritten [Git]: "%GIT%", "echo nonsense > .git/HEAD" => Denied;
    index_is_removed [Git]: "%GIT%", "rm .git/index" => Undone;
    git_clean [Git]: "%GIT%mkdir target; echo t > target/t; echo new > new; echo o > a.o", "git clean -qfdx" => UndoneOrTold;
    git_reset_hard [Git]: "%GIT%echo work >> README; echo work >> src/1.c", "git reset -q --hard HEAD~1" => Undone;
    git_checkout_of_files [Git]: "%GIT%echo work >> README", "git checkout -q -- ." => Undone;
    git_branch_is_deleted [Git]: "%GIT%", "git branch -q -D other; git reflog expire --expire=now --all; git gc -q --prune=now" => Undone;
    git_force_push_to_a_local_remote [Git]: "%GIT%git clone -q --bare . remote.git; git remote add origin ./remote.git; git commit -q --amend -m other", "git push -q --force ./remote.git main" => Undone;
    git_rebase [Git]: "%GIT%git checkout -q other; echo o > o; git add o; git commit -qm o; git checkout -q main", "git -c user.name=a -c user.email=a@b rebase -q other" => Undone;
    git_stash_and_drop [Git]: "%GIT%echo work >> README", "git -c user.name=a -c user.email=a@b stash -q && git stash drop -q" => Undone;
    // Attributes and access lists.
    attributes_are_changed [SystemPython]: "%PY% -c 'import os; os.setxattr(\"README\", \"user.a\", b\"1\"); os.setxattr(\"docs\", \"user.d\", b\"2\")'", "%PY% -c 'import os; os.setxattr(\"README\", \"user.a\", b\"other\"); os.setxattr(\"docs/letter\", \"user.b\", b\"3\"); os.removexattr(\"docs\", \"user.d\")'" => Undone;
    attributes_of_a_copy_come_back [SystemPython]: "%PY% -c 'import os; os.setxattr(\"README\", \"user.a\", b\"\\0 1\"); os.setxattr(\"docs/letter\", \"user.b\", b\"2\")'", "echo x > README; rm README; echo y > docs/letter; mv docs/letter docs/moved; echo z > docs/letter" => Undone;
    attributes_of_a_removed_folder_come_back [SystemPython]: "%PY% -c 'import os; os.setxattr(\"src/deep\", \"user.a\", b\"1\"); os.setxattr(\"src/deep/er/1.h\", \"user.b\", b\"2\")'", "rm -r src/deep" => Undone;
    access_list_is_changed [SystemPython]: "", "%PY% -c 'import os, struct; entries = [(1, 6, -1), (2, 4, os.getuid()), (4, 4, -1), (16, 4, -1), (32, 0, -1)]; os.setxattr(\"README\", \"system.posix_acl_access\", struct.pack(\"<I\", 2) + b\"\".join(struct.pack(\"<HHi\", *it) for it in entries))' || chmod 600 README" => Undone;
    owner_is_changed: "", "chown 12:34 README || chmod 700 README" => Undone;
    // Files of a special kind.
    sparse_file_is_written: "truncate -s 8M data/sparse; echo end >> data/sparse", "printf x | dd of=data/sparse bs=1 seek=1000 conv=notrunc 2>/dev/null" => Undone;
    sparse_file_is_emptied: "truncate -s 8M data/sparse; echo end >> data/sparse", ": > data/sparse" => Undone;
    file_above_the_bound_is_written: "head -c 3000000 /dev/zero | tr '\\0' y > data/large", "echo x >> README; printf x | dd of=data/large conv=notrunc 2>/dev/null" => UndoneOrTold;
    file_above_the_bound_is_removed: "head -c 3000000 /dev/zero | tr '\\0' y > data/large", "rm data/large; echo x >> README" => UndoneOrTold;
    socket_and_device_are_removed [SystemPython]: "%PY% -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; mknod null c 1 3 || true", "rm -f socket null README" => UndoneOrTold;
    socket_is_made [SystemPython]: "", "%PY% -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")' || echo x > socket" => Undone;
    // Less usual calls.
    exchange_of_files [SystemPython]: "", "%PY% -c 'import ctypes; assert ctypes.CDLL(None).renameat2(-100, b\"README\", -100, b\"docs/letter\", 2) == 0'; echo x > README" => Undone;
    exchange_of_a_file_and_a_folder [SystemPython]: "", "%PY% -c 'import ctypes; assert ctypes.CDLL(None).renameat2(-100, b\"README\", -100, b\"src/deep\", 2) == 0'; rm README/er/1.h || rm src/deep/er/1.h; echo x > data/blob" => UndoneOrTold;
    rename_without_replacing [SystemPython]: "", "%PY% -c 'import ctypes; c = ctypes.CDLL(None); c.renameat2(-100, b\"README\", -100, b\"docs/letter\", 1); assert c.renameat2(-100, b\"README\", -100, b\"new\", 1) == 0'" => Undone;
    nameless_file_gets_a_name [SystemPython]: "", "%PY% -c 'import ctypes, os; f = os.open(\"docs\", os.O_TMPFILE | os.O_RDWR); os.write(f, b\"x\"); assert ctypes.CDLL(None).linkat(-100, f\"/proc/self/fd/{f}\".encode(), -100, b\"docs/new\", 0x400) == 0'; rm docs/letter" => Undone;
    nameless_file_replaces_another [SystemPython]: "", "%PY% -c 'import ctypes, os; f = os.open(\"docs\", os.O_TMPFILE | os.O_RDWR); os.write(f, b\"x\"); assert ctypes.CDLL(None).linkat(-100, f\"/proc/self/fd/{f}\".encode(), -100, b\"docs/t\", 0x400) == 0; os.replace(\"docs/t\", \"docs/letter\"); os.write(f, b\"y\")'" => Undone;
    written_by_copy_file_range [SystemPython]: "", "%PY% -c 'import os; os.copy_file_range(os.open(\"src/1.c\", os.O_RDONLY), os.open(\"data/blob\", os.O_WRONLY), 7, 0, 100)'" => Undone;
    written_by_sendfile [SystemPython]: "", "%PY% -c 'import os; os.sendfile(os.open(\"data/blob\", os.O_WRONLY), os.open(\"src/1.c\", os.O_RDONLY), 0, 7)'" => Undone;
    written_by_splice [SystemPython]: "", "%PY% -c 'import os; r, w = os.pipe(); os.write(w, b\"piped\"); os.splice(r, os.open(\"data/blob\", os.O_WRONLY), 5, offset_dst=50)'" => Undone;
    range_is_zeroed: "", "fallocate -z -o 4096 -l 8192 data/blob || printf x | dd of=data/blob conv=notrunc 2>/dev/null" => Undone;
    range_is_collapsed: "", "fallocate -c -o 0 -l 4096 data/blob || printf x | dd of=data/blob conv=notrunc 2>/dev/null" => Undone;
    map_of_a_file_that_is_opened_for_appending [SystemPython]: "", "%PY% -c 'import mmap, os; m = mmap.mmap(os.open(\"data/blob\", os.O_RDWR | os.O_APPEND), 0); m[5:10] = b\"12345\"; m.flush()'" => Undone;
    appending_is_switched_off_for_one_write [SystemPython]: "", "%PY% -c 'import os; os.pwritev(os.open(\"data/blob\", os.O_WRONLY | os.O_APPEND), [b\"zz\"], 100, 0x20)' || printf x | dd of=data/blob conv=notrunc 2>/dev/null" => Undone;
    appending_is_switched_off [SystemPython]: "", "%PY% -c 'import fcntl, os; f = os.open(\"data/blob\", os.O_WRONLY | os.O_APPEND); fcntl.fcntl(f, fcntl.F_SETFL, 0); os.pwrite(f, b\"zz\", 100)'" => Undone;
    descriptor_of_a_reader_is_opened_for_writing: "", "exec 3<README; echo x > /dev/fd/3; echo y >> /proc/$$/fd/3" => Undone;
    // Renames that the system refuses.
    file_is_moved_to_another_file_system: "", "mv README /tmp/; mv docs /tmp/; mv /tmp/docs back" => Undone;
    folder_is_moved_into_itself: "", "mv src src/deep/ 2>/dev/null; echo x > src/1.c; rm src/2.c" => Undone;
    folder_is_moved_over_one_with_files: "", "mv -T src docs 2>/dev/null; echo x > docs/letter; echo y > src/1.c; rm src/2.c docs/nothing" => Undone;
    folder_is_moved_over_one_with_files_at_the_end: "", "echo x > docs/letter; mv -T src docs 2>/dev/null || true" => Undone;
    file_is_moved_out_of_a_closed_folder: "chmod 500 docs", "mv docs/letter src/2.c 2>/dev/null; echo x > docs/letter; echo y > src/2.c; rm -f src/1.c" => Undone;
    removal_is_refused_before_a_write: "chmod 500 docs", "rm -f docs/letter; echo x > docs/letter; chmod 700 docs; rm docs/letter" => Undone;
    // Ways around the tracker.
    other_ways_are_refused [SystemPython]: "%WAYS%", "%PY% ways.py" => Refused;
    calls_of_32_bits_are_refused: "%INT80%", "./int80 || true" => Refused;
    mounts_of_their_own_are_refused: "mkdir over", "unshare -Urm sh -c 'mount --bind src over && echo x > over/1.c'; unshare -m true && rm README; true" => Refused;
    written_through_a_link_to_a_folder_of_descriptors: "", "exec 3<README; ln -s /proc/self/fd own; echo x > own/3; rm own" => Undone;
    written_through_a_link_to_a_descriptor: "", "exec 3<README; ln -s /proc/self/fd/3 own; echo x > own; rm own" => Undone;
    removed_through_a_link_to_the_working_folder: "", "ln -s /proc/self/cwd here; rm here/README; echo x > here/src/1.c; mv here/docs/letter here/docs/other" => Undone;
    written_by_roundabout_paths: "", "exec 3<README; echo x > /proc/self/../self/fd/3; cd /proc/self/cwd/src; echo x > ./../src/1.c; cd /dev/fd/; echo y > 3; rm /proc/thread-self/cwd/../../../nothing 2>/dev/null; rm /proc/$$/root$OLDPWD/2.c" => Undone;
    written_through_the_folder_of_another_process: "", "exec 3<README; sleep 5 & echo x > /proc/$!/fd/3; ln -s /proc/$! other; rm other/cwd/src/1.c; kill %1" => Undone;
    hole_by_ioctl [SystemPython]: "", "%PY% -c 'import fcntl, os, struct; f = os.open(\"data/blob\", os.O_WRONLY | os.O_APPEND); fcntl.ioctl(f, 0x4030582B, struct.pack(\"hhqqiI16x\", 0, 0, 0, 8192, 0, 0))' || printf x | dd of=data/blob conv=notrunc 2>/dev/null" => Undone;
    zeroes_by_ioctl [SystemPython]: "", "%PY% -c 'import fcntl, os, struct; f = os.open(\"data/blob\", os.O_WRONLY | os.O_APPEND); fcntl.ioctl(f, 0x40305839, struct.pack(\"hhqqiI16x\", 0, 0, 4096, 8192, 0, 0))' || printf x | dd of=data/blob conv=notrunc 2>/dev/null" => Undone;
    cloned_over_by_ioctl [SystemPython]: "", "%PY% -c 'import fcntl, os; fcntl.ioctl(os.open(\"README\", os.O_WRONLY), 0x40049409, os.open(\"src/1.c\", os.O_RDONLY))' || cp src/1.c README" => Undone;
    ignored_by_a_pattern_of_the_command [Git]: "%GIT%mkdir build; echo work > build/work", "echo build/ >> .gitignore; echo x > build/work" => Undone;
    program_that_can_t_be_read: "", "cp /bin/rm wipe; chmod 111 wipe; ./wipe README || rm README" => Undone;
    process_that_hides_itself [SystemPython]: "", "%PY% -c 'import ctypes, os; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); os.unlink(\"README\"); d = os.open(\"src\", os.O_RDONLY); os.unlink(\"1.c\", dir_fd=d); open(\"src/2.c\", \"w\").write(\"x\")' || echo x > README" => Undone;
    folder_above_is_closed: "", "cd src/deep && chmod 000 .. && rm -r er && chmod 755 .." => Undone;
    folder_above_stays_closed: "", "cd src/deep && chmod 000 .. && echo x > er/1.h; rm -f er/2.h" => Undone;
    git_alias_removes_files [Git]: "%GIT%", "git -c alias.wipe='!rm -rf src/deep README; echo x > src/1.c' wipe" => Undone;
    git_alias_removes_the_history [Git]: "%GIT%", "git -c alias.wipe='!rm -rf .git/objects' wipe" => Denied;
    program_of_the_name_of_git_removes_the_history [Git]: "%GIT%", "cp /bin/rm /tmp/git; PATH=/tmp:$PATH; git -rf .git/objects .git/refs" => Denied;
    program_in_a_folder_of_git_s_programs [Git]: "%GIT%", "mkdir /tmp/x; cp /bin/rm /tmp/x/git-wipe; GIT_EXEC_PATH=/tmp/x /tmp/x/git-wipe -rf .git/objects" => Denied;
    history_is_moved_away [Git]: "%GIT%", "mv .git/objects .git/other" => Denied;
    ref_is_moved_away [Git]: "%GIT%", "mv .git/refs/heads/main .git/refs/heads/gone" => Denied;
    head_is_exchanged [Git, SystemPython]: "%GIT%", "%PY% -c 'import ctypes; assert ctypes.CDLL(None).renameat2(-100, b\".git/HEAD\", -100, b\".git/index\", 2) == 0'" => Denied;
    hook_that_wipes [Git]: "%GIT%", "git config core.hooksPath hooks || true; mkdir -p hooks; printf '#!/bin/sh\\nrm -rf src/deep docs/letter\\n' > hooks/pre-commit; chmod 755 hooks/pre-commit; git -c core.hooksPath=hooks -c user.name=a -c user.email=a@b commit -q --allow-empty -m x" => UndoneOrTold;
    renames_over_each_other: "", "for i in 1 2 3 4 5; do mv src/$i.c src/6.c; done; mv src/6.c README" => Undone;
    names_swap_while_they_are_written: "ln src/1.c one", "ln -f src/2.c one; echo x > one; ln -f README one; echo y >> one; rm one" => Undone;
    processes_that_go_on: "", "(setsid sh -c 'rm -r src/deep; echo x > README' >/dev/null 2>&1 &); while [ -e src/deep ]; do :; done; sleep 0.1" => Undone;
}
