/**
 * The text with a backslash before each command to the host, or to a bot there, so that Markdown
 * shows the line as it is and nothing obeys it: GitLab and common bots close, approve and merge by
 * a line like `/merge`. A path like `/usr/bin` is no command.
 */
export const withoutQuickActions = (text: string): string =>
  // A host that drops carriage returns would find a command where none was.
  text
    .replaceAll(/\r\n?/g, '\n')
    .replaceAll(/^([^\S\n\u2028\u2029]*)\/(?=[a-z][^\s/]*(?:\s|$))/gim, String.raw`$1\/`);
