// IDs of the runs of the development server.
export const newId = (prefix, tail) =>
  `${prefix}_01m811fq27ec1bm7gm628e${tail}`.slice(0, prefix.length + 27).padEnd(prefix.length + 27, "0");
export const ids = {
  live: newId("run", "saw0"),
  done: newId("run", "aa11"),
  failed: newId("run", "bb22"),
  interrupted: newId("run", "cc33"),
  timedOut: newId("run", "dd44"),
  many: newId("run", "ee55"),
  retention: newId("run", "ff66"),
  hostile: newId("run", "gg77"),
  queued: newId("run", "hh88"),
  flood: newId("run", "ii99"),
  replay: newId("run", "jj00"),
};
