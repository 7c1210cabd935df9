/** Ends of lines for a host or a bot there: those of Unicode, and of `splitlines` of Python. */
// eslint-disable-next-line no-control-regex -- Python ends lines with these too
const lineEnds = /\r\n?|[\v\f\u{1c}-\u{1e}\u{85}\u{2028}\u{2029}]/gv;
/**
 * A command at the beginning of a line. Characters without a glyph count as blanks and as nothing,
 * because hosts trim or drop them.
 */
const command =
  /^([[\s\p{Cc}\p{Cf}]--\n]*)\/(?=[[\p{Cc}\p{Cf}]--\n]*[a-z][^\s\p{Cc}\p{Cf}\/]*(?:[\s\p{Cc}\p{Cf}]|$))/gimv;

/**
 * The text with a backslash before each command to the host, or to a bot there, so that Markdown
 * shows the line as it is and nothing obeys it: GitLab and common bots close, approve and merge by
 * a line like `/merge`. A path like `/usr/bin` is no command. Each end of a line becomes a line
 * feed, so that host and gateway see the same lines.
 */
export const withoutQuickActions = (text: string): string =>
  text.replaceAll(lineEnds, '\n').replaceAll(command, String.raw`$1\/`);
