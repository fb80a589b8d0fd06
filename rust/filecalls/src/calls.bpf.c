// The part of hyperslab-filecalls that runs in the kernel: calls of followed threads that have to do with files.
//
// A call is seen twice, when it begins and when it ends (tracepoints sys_enter and sys_exit). Descriptors are
// looked up before it, as `close` leaves nothing to look up, and names are read after it, when the kernel itself
// has read them, so that their memory is there. A path is a list of names from the file up to the root, each
// with a zero behind it. `cargo` does not compile this file: `make filecalls-object` does, into calls.bpf.o.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

// Structures of the kernel, with those of their fields that are looked at. Whoever loads this program puts the
// places in that these fields have in the running kernel (CO-RE), as the kernel itself tells them (BTF).
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct qstr {
  const u8 *name;
};
struct super_block {
  unsigned long s_magic;
};
struct dentry {
  struct dentry *d_parent;
  struct qstr d_name;
  struct super_block *d_sb;
};
struct vfsmount {
  struct dentry *mnt_root;
  int mnt_flags;
};
struct mount {
  struct mount *mnt_parent;
  struct dentry *mnt_mountpoint;
  struct vfsmount mnt;
};
struct path {
  struct vfsmount *mnt;
  struct dentry *dentry;
};
struct file {
  struct path f_path;
  u32 f_mode;
  u32 f_flags;
};
struct fdtable {
  u32 max_fds;
  struct file **fd;
};
struct files_struct {
  struct fdtable *fdt;
};
struct fs_struct {
  struct path root;
  struct path pwd;
};
struct thread_info {
  u32 status;
};
struct task_struct {
  struct thread_info thread_info;
  int tgid;
  struct files_struct *files;
  struct fs_struct *fs;
};
struct pt_regs {
  unsigned long di, si, dx, r10, r8, r9;
};

#pragma clang attribute pop

#define MNT_INTERNAL 0x4000
#define TMPFS_MAGIC 0x01021994
#define FMODE_CREATED (1 << 20)
#define O_TMPFILE_ALONE 020000000
#define AT_FDCWD -100
#define TS_COMPAT 2

// Functions of the kernel, by the numbers of include/uapi/linux/bpf.h.
static void *(*lookup)(void *map, const void *key) = (void *)1;
static u64 (*now_ns)(void) = (void *)5;
static long (*read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*read_user_text)(void *to, u32 size, const void *from) = (void *)114;
static long (*read_kernel_text)(void *to, u32 size, const void *from) = (void *)115;
static long (*ring_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static u64 (*ring_query)(void *ring, u64 what) = (void *)134;
static void *(*storage_of)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;
static struct task_struct *(*current)(void) = (void *)158;
static long (*loop)(u32 steps, void *step, void *walk, u64 flags) = (void *)181;

#define RING_NO_WAKEUP 1
#define RING_FORCE_WAKEUP 2
#define RING_AVAILABLE 0
#define RING_SIZE 1
#define STORAGE_CREATE 1

// Reads a field of a structure of the kernel's.
#define READ(pointer, field)                                                                      \
  ({                                                                                              \
    typeof((pointer)->field) value = 0;                                                           \
    read_kernel(&value, sizeof(value), __builtin_preserve_access_index(&(pointer)->field));       \
    value;                                                                                        \
  })

// What a call is looked at for: `Plan` of kernel.rs.
struct plan {
  u8 ways;
  u8 descriptor;  // argument that is a descriptor, or the directory of a name
  u8 second;      // argument that is another descriptor
  u8 name;        // argument that is a name
  u8 length;      // argument that says how much is mapped
  u8 unused[3];
};

#define BY_DESCRIPTOR 1
#define BY_SECOND 2
#define BY_NAME 4
#define IN_FOLDER 8
#define OPENS 16
#define OF_LENGTH 32
#define WITHOUT_FILE 64

#define NAMES_NBYTES 8192
#define NAME_NBYTES 256
#define PATH_NBYTES 4096
#define DEPTH 128

// A call that has ended: `Seen` of record.rs.
struct record {
  u64 start_ns;
  u64 duration_ns;
  s64 result;
  s64 nbytes;
  u32 process;
  u16 call;
  u8 flags;
  u8 unused;
  u16 first;  // bytes of the first path, or of the name
  u16 second; // bytes of the second path, or of the folder of the name
  u32 length; // bytes of both
  char names[NAMES_NBYTES];
};

#define HEADER_NBYTES 48
#define IS_MADE 1
#define IS_BY_NAME 2
#define IS_CUT 4
#define HAS_FIRST 8
#define HAS_SECOND 16
#define IS_NOWHERE 32 // its name is relative to what is no folder

_Static_assert(sizeof(struct record) == HEADER_NBYTES + NAMES_NBYTES, "no gaps");

struct thread {
  int is_counter; // the thread that starts the command, whose own calls do not count
  int call;       // number of the call that it is in, or NO_CALL
  u64 arguments[8];
  struct record record;
};

#define NO_CALL -1
#define CALLS 1024
#define RING_NBYTES (1 << 25) // unless whoever loads it says otherwise

struct {
  int (*type)[29]; // BPF_MAP_TYPE_TASK_STORAGE
  int (*map_flags)[1];
  int *key;
  struct thread *value;
} threads SECTION(".maps");

struct {
  int (*type)[2]; // BPF_MAP_TYPE_ARRAY
  int (*max_entries)[CALLS];
  u32 *key;
  struct plan *value;
} plans SECTION(".maps");

struct {
  int (*type)[27]; // BPF_MAP_TYPE_RINGBUF
  int (*max_entries)[RING_NBYTES];
} ring SECTION(".maps");

// What went wrong: `Faults` of kernel.rs.
struct {
  int (*type)[2];
  int (*max_entries)[5];
  u32 *key;
  u64 *value;
} faults SECTION(".maps");

#define LOST_CALLS 0
#define LOST_THREADS 1
#define UNREAD_NAMES 2
#define CUT_PATHS 3
#define FOREIGN_CALLS 4

INLINE void count_fault(u32 fault) {
  u64 *count = lookup(&faults, &fault);
  if (count)
    __sync_fetch_and_add(count, 1);
}

INLINE struct mount *mount_of(struct vfsmount *mnt) {
  return (void *)mnt - __builtin_preserve_field_info(((struct mount *)0)->mnt, 0);
}

// Adds a name behind those of the record; 0 where it has no room.
INLINE int add_name(struct record *record, struct dentry *dentry) {
  u32 at = record->length;
  if (at > NAMES_NBYTES - NAME_NBYTES)
    return 0;
  long size = read_kernel_text(record->names + at, NAME_NBYTES, READ(dentry, d_name.name));
  if (size > 0)
    record->length = at + size;
  return 1;
}

// Where a way from a file up to the root of the thread is.
struct walk {
  struct record *record;
  struct dentry *dentry;
  struct vfsmount *mnt;
  struct dentry *root;
  struct vfsmount *root_mnt;
  int is_over;
};

// Goes on to the next folder, or from what is mounted to where it is; 1 where the way ends.
static long step(u32 number __attribute__((unused)), struct walk *walk) {
  struct dentry *dentry = walk->dentry;
  struct vfsmount *mnt = walk->mnt;
  if (dentry == walk->root && mnt == walk->root_mnt) {
    walk->is_over = 1;
    return 1;
  }
  struct dentry *parent = READ(dentry, d_parent);
  if (dentry != READ(mnt, mnt_root) && dentry != parent) {
    walk->dentry = parent;
    return !add_name(walk->record, dentry);
  }
  struct mount *mounted = mount_of(mnt);
  struct mount *below = READ(mounted, mnt_parent);
  if (mounted == below || !below) {
    walk->is_over = 1;
    return 1;
  }
  walk->dentry = READ(mounted, mnt_mountpoint);
  walk->mnt = __builtin_preserve_access_index(&below->mnt);
  return 0;
}

// Adds the names from a file up to the root of the thread.
INLINE void add_path(struct record *record, struct dentry *dentry, struct vfsmount *mnt, struct fs_struct *fs) {
  struct walk walk = {record, dentry, mnt, READ(fs, root.dentry), READ(fs, root.mnt), 0};
  loop(DEPTH, step, &walk, 0);
  if (!walk.is_over)
    record->flags |= IS_CUT;
}

// Adds the path of a file; 0 for what has none, such as a pipe.
INLINE int add_file(struct record *record, struct file *file, struct fs_struct *fs) {
  struct dentry *dentry = READ(file, f_path.dentry);
  struct vfsmount *mnt = READ(file, f_path.mnt);
  if (!(READ(mnt, mnt_flags) & MNT_INTERNAL)) {
    add_path(record, dentry, mnt, fs);
    return 1;
  }
  struct super_block *sb = READ(dentry, d_sb);
  if (READ(sb, s_magic) != TMPFS_MAGIC)
    return 0;
  return add_name(record, dentry); // a file in memory alone
}

INLINE struct file *file_of(struct task_struct *task, int descriptor) {
  struct files_struct *files = READ(task, files);
  struct fdtable *table = READ(files, fdt);
  u32 place = descriptor;
  if (descriptor < 0 || place >= READ(table, max_fds))
    return 0;
  struct file **all = READ(table, fd);
  struct file *file = 0;
  read_kernel(&file, sizeof(file), all + place);
  return file;
}

INLINE int add_descriptor(struct record *record, struct task_struct *task, int descriptor) {
  struct file *file = file_of(task, descriptor);
  if (!file)
    return 0;
  return add_file(record, file, READ(task, fs));
}

// Adds the folder that a name is relative to.
INLINE void add_folder(struct thread *self, struct task_struct *task, const struct plan *plan) {
  struct record *record = &self->record;
  int descriptor = self->arguments[plan->descriptor & 7];
  if (plan->ways & IN_FOLDER && descriptor != AT_FDCWD) {
    if (!add_descriptor(record, task, descriptor))
      record->flags |= IS_NOWHERE;
    return;
  }
  struct fs_struct *fs = READ(task, fs);
  add_path(record, READ(fs, pwd.dentry), READ(fs, pwd.mnt), fs);
}

// Adds the name that a call has, and the folder of a relative one.
INLINE void add_named(struct thread *self, struct task_struct *task, const struct plan *plan) {
  struct record *record = &self->record;
  const void *name = (const void *)self->arguments[plan->name & 7];
  record->flags |= IS_BY_NAME;
  record->names[0] = 0;
  record->length = 1;
  if (name) {
    long size = read_user_text(record->names, PATH_NBYTES, name);
    if (size < 0) {
      record->length = 0;
      count_fault(UNREAD_NAMES);
      return;
    }
    if (size > 0 && size <= PATH_NBYTES)
      record->length = size;
  }
  record->first = record->length;
  if (record->names[0] != '/')
    add_folder(self, task, plan);
}

// What an opening has made. A file without a name has the path of its descriptor.
INLINE void look_at_opened(struct record *record, struct task_struct *task, int descriptor) {
  struct file *file = file_of(task, descriptor);
  if (!file)
    return;
  if (READ(file, f_mode) & FMODE_CREATED)
    record->flags |= IS_MADE;
  if (READ(file, f_flags) & O_TMPFILE_ALONE) {
    record->flags = IS_MADE | HAS_FIRST;
    record->length = 0;
    add_file(record, file, READ(task, fs));
    record->first = record->length;
  }
}

INLINE void send(struct record *record) {
  u64 flags = RING_NO_WAKEUP;
  u32 length = record->length;
  if (length > NAMES_NBYTES)
    return;
  if (record->flags & IS_CUT)
    count_fault(CUT_PATHS);
  if (ring_query(&ring, RING_AVAILABLE) > ring_query(&ring, RING_SIZE) / 4)
    flags = RING_FORCE_WAKEUP;
  if (ring_output(&ring, record, HEADER_NBYTES + length, flags))
    count_fault(LOST_CALLS);
}

SECTION("tp_btf/sched_process_fork")
int on_fork(u64 *context) {
  struct task_struct *child = (void *)context[1];
  if (!storage_of(&threads, current(), 0, 0))
    return 0;
  struct thread *made = storage_of(&threads, child, 0, STORAGE_CREATE);
  if (made)
    made->call = NO_CALL;
  else
    count_fault(LOST_THREADS);
  return 0;
}

SECTION("tp_btf/sys_enter")
int on_enter(u64 *context) {
  struct pt_regs *registers = (void *)context[0];
  u32 call = context[1];
  struct task_struct *task = current();
  struct thread *self = storage_of(&threads, task, 0, 0);
  if (!self || self->is_counter)
    return 0;
  self->call = NO_CALL;
  if (READ(task, thread_info.status) & TS_COMPAT) { // the numbers of its calls are others
    count_fault(FOREIGN_CALLS);
    return 0;
  }
  struct plan *plan = lookup(&plans, &call);
  if (!plan || !plan->ways)
    return 0;
  self->arguments[0] = registers->di;
  self->arguments[1] = registers->si;
  self->arguments[2] = registers->dx;
  self->arguments[3] = registers->r10;
  self->arguments[4] = registers->r8;
  self->arguments[5] = registers->r9;
  struct record *record = &self->record;
  record->length = 0;
  record->first = 0;
  record->flags = 0;
  if (plan->ways & BY_DESCRIPTOR) {
    if (add_descriptor(record, task, self->arguments[plan->descriptor & 7]))
      record->flags |= HAS_FIRST;
    record->first = record->length;
  }
  if (plan->ways & BY_SECOND && add_descriptor(record, task, self->arguments[plan->second & 7]))
    record->flags |= HAS_SECOND;
  if (!record->flags && !(plan->ways & (BY_NAME | WITHOUT_FILE)))
    return 0;
  self->call = call;
  record->call = call;
  record->start_ns = now_ns();
  return 0;
}

// Whether a call has not ended, but begins again: ERESTARTSYS and its kin.
INLINE int begins_again(s64 result) { return result <= -512 && result >= -516 && result != -515; }

SECTION("tp_btf/sys_exit")
int on_exit(u64 *context) {
  s64 result = context[1];
  u64 end_ns = now_ns();
  struct task_struct *task = current();
  struct thread *self = storage_of(&threads, task, 0, 0);
  if (!self || self->call == NO_CALL || self->is_counter)
    return 0;
  u32 call = self->call;
  self->call = NO_CALL;
  struct plan *plan = lookup(&plans, &call);
  if (!plan || begins_again(result))
    return 0;
  struct record *record = &self->record;
  record->duration_ns = end_ns - record->start_ns;
  record->result = result;
  record->nbytes = result;
  if (plan->ways & OF_LENGTH)
    record->nbytes = self->arguments[plan->length & 7];
  record->process = READ(task, tgid);
  if (plan->ways & BY_NAME)
    add_named(self, task, plan);
  if (plan->ways & OPENS && result >= 0)
    look_at_opened(record, task, result);
  record->second = record->length - record->first;
  send(record);
  return 0;
}

char LICENSE[] SECTION("license") = "GPL";
// SHA-256 of this file, by which a test knows that the object is of it.
char SOURCE[] SECTION("source") = DIGEST;
