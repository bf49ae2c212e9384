#!/usr/bin/env node
// What a title is in the address of a page. A tool in JavaScript: it runs by Node, without a package.

import { readFileSync } from "node:fs";

const spec = {
  name: "slug",
  description: "Turn a title into the last part of a page's address: lower case, without accents, words joined by dashes.",
  parameters: {
    type: "object",
    required: ["title"],
    properties: {
      title: { type: "string", minLength: 1 },
      longest: { type: "integer", minimum: 8, description: "Letters at most. Default: 60." },
    },
    additionalProperties: false,
  },
  // It touches nothing that other calls touch, so any number of them run at once.
  touches: [],
  timeout_seconds: 10,
};

if (process.argv[2] === "--tool") {
  console.log(JSON.stringify(spec));
  process.exit();
}

const { title, longest = 60 } = JSON.parse(readFileSync(0, "utf8"));
const words = title
  .normalize("NFKD")
  .replace(/\p{M}/gu, "")
  .toLowerCase()
  .match(/[\p{L}\p{N}]+/gu);
if (!words) {
  console.log(JSON.stringify({ error: `there is no letter in ${JSON.stringify(title)}` }));
} else {
  let slug = words.shift();
  for (const word of words) {
    if (slug.length + 1 + word.length > longest) break;
    slug += `-${word}`;
  }
  slug = [...slug].slice(0, longest).join("");
  console.log(
    JSON.stringify({ content: [{ type: "text", text: slug }], structuredContent: { slug, letters: slug.length } }),
  );
}
