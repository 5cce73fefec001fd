// What `make prose` lets pass, with reasons. It reports an exception that nothing needs any more.

// Files that are not checked: { path, reason }.
export const skipped = [
  { path: /\.zh-CN\.md$/, reason: "Chinese; its links and anchors are checked" },
  { path: /^web\/assets\/vendor\//, reason: "written by others" },
  { path: /^clients\/js\/.*\.d\.ts$/, reason: "generated from openapi.yaml and hongbao.js, which are checked" },
];

// Lines that may say what they say: { file, text: a part of the line, reason }.
export const exceptions = [];
