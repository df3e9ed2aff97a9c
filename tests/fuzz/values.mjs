// Values that nobody should send, and ways to spoil what is fine. Everything comes out of a generator
// with a seed, so the same seed makes the same.

/** Text of a JSON number that is out of every range there is, or no number at all. */
export const wrongNumbers = [
  "-1", "-0.5", "1.5", "1e-7", "9007199254740992", "9007199254740993", "-9007199254740993", "18446744073709551615",
  "18446744073709551616", "1e19", "1e308", "1e400", "-1e400", "9".repeat(5_000), "NaN", "Infinity", "0x10", "+1", "01", "1.", ".5", "1e", "--1",
];

/** No queue has such a name; each is a JavaScript string. */
export const wrongNames = [
  "", " ", "a b", "a/b", "/", "../../etc/passwd", "a\0b", "\0", "a\nb", "a%2fb", "%00", "grüße", "\u{1f680}", "a\u202eb", "\ufeffa", "a\\b", "*", ">",
  "a;DROP TABLE queue", "a'b", 'a"b', "<script>", "${x}", "{{x}}", "\ud800", "x".repeat(64), "x".repeat(100_000), "\u0301".repeat(1_000),
];

/** Ids as they stand in a path: bytes in Latin-1, none of them a space or a control character. */
export const wrongIds = [
  "0", "x", "%00", "%0d%0aX:y", "%2e%2e", "..", ".", "..;", "%2f", "%5c", "\\", "a%2fb", "%", "%zz", "%ff%fe", "%c0%ae", "%ed%a0%80", "\xff\xfe", "\xc3\x28",
  "null", "undefined", "-1", "{queue_id}", "'", '"', "<x>", "?x", "#x", "&", "=", ";", "*", "~", "0".repeat(31), "0".repeat(33), "g".repeat(32), "%30".repeat(32),
  "0".repeat(5_000), "%00".repeat(2_000), "a/".repeat(500), "../", "//",
];

/** Byte sequences that are no UTF-8: lone bytes, cut ones, overlong ones, surrogates, beyond Unicode. */
export const brokenUtf8 = ["ff", "80", "c3", "c3c3", "c080", "c0af", "e282", "e08080", "eda080", "edbfbf", "f08080af", "f4908080", "f8888080"].map((hex) => Buffer.from(hex, "hex"));

/** Text of JSON values of every type, odd ones among them; none of them a wait that would take long. */
const jsonValues = [
  ...wrongNumbers.slice(0, 14), "0", "1", "100", "100000", "true", "false", "null", '""', '"x"', '"5"', '"true"', '"\\u0000"', '"\\ud800"', '"\\"', "[]", "{}",
  "[[]]", "[null]", "[1,2,3]", '["a"]', '{"a":1}', '{"":null}', '{"__proto__":{"a":1}}', '{"lease_id":"x"}', '{"body":1}', "[{}]", "[[[[[[[[]]]]]]]]",
];

export const bytes = (rng, length) => Buffer.from(Array.from({ length }, () => rng.between(0, 255)));

/** A length: mostly small, seldom large. */
export const size = (rng, most) => Math.floor(Math.exp(rng.next() * Math.log(most + 1)));

/** Something nested `levels` deep, its brackets closed or not. */
export function deep(rng, levels) {
  const [open, close, heart] = rng.pick([["[", "]", "1"], ['{"a":', "}", "1"], ['[{"body":', "}]", "null"], ['{"messages":[', "]}", "{}"], ["[", "", ""], ['{"a":', "", ""]]);
  return open.repeat(levels) + heart + close.repeat(levels);
}

/** JSON text with something changed in its structure: a value, a key, a member more, less or twice. */
export function respelled(rng, value) {
  const places = [];
  const visit = (node, path) => {
    places.push(path);
    if (typeof node === "object" && node !== null) for (const key of Object.keys(node)) visit(node[key], [...path, key]);
  };
  visit(value, []);
  const aim = rng.pick(places).join("\0");
  const how = rng.between(0, 6);
  const junk = rng.chance(0.1) ? JSON.stringify(rng.pick(wrongNames)) : rng.pick(jsonValues);
  const write = (node, path) => {
    const isAim = path.join("\0") === aim;
    if (isAim && how <= 2) return junk;
    if (typeof node !== "object" || node === null) return JSON.stringify(node);
    const isArray = Array.isArray(node);
    const items = Object.entries(node).flatMap(([key, child]) => {
      const at = [...path, key].join("\0") === aim;
      const member = (name, text) => (isArray ? text : `${JSON.stringify(name)}:${text}`);
      const written = member(key, write(child, [...path, key]));
      if (at && how === 3) return [];
      if (at && how === 4) return [written, member(key, junk)];
      if (at && how === 5) return [member(rng.pick(wrongNames.slice(0, 24)), write(child, [...path, key]))];
      return [written];
    });
    if (isAim && how === 6) items.push(isArray ? junk : `${JSON.stringify(rng.pick(["x", "", "a\0", "__proto__", "queue_id"]))}:${junk}`);
    return isArray ? `[${items.join(",")}]` : `{${items.join(",")}}`;
  };
  return write(value, []);
}

/** Bytes with a few of them flipped, put in, taken out, repeated or cut off. */
export function spoiled(rng, original) {
  let result = Buffer.from(original);
  for (let rounds = rng.between(1, 4); rounds > 0; rounds -= 1) {
    const at = rng.between(0, result.length);
    const upto = Math.min(result.length, at + size(rng, 30));
    const [before, slice, after] = [result.subarray(0, at), result.subarray(at, upto), result.subarray(upto)];
    const change = rng.pick([
      () => [before, bytes(rng, slice.length), after],
      () => [before, bytes(rng, size(rng, 8)), slice, after],
      () => [before, after],
      () => [before, slice, slice, after],
      () => [before],
      () => [before, Buffer.from(rng.pick(['"', "\\", "{", "}", "[", "]", ",", ":", "\\u", "\\ud800", "\0", "e9", "-", " ", "\n", "null"])), slice, after],
      () => [before, rng.pick(brokenUtf8), slice, after],
    ]);
    result = Buffer.concat(change());
  }
  return result;
}
