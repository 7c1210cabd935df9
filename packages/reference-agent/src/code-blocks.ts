export interface CodeBlock {
  readonly shell: 'sh' | 'bash';
  readonly code: string;
}

const shells: Readonly<Record<string, CodeBlock['shell']>> = {
  '': 'sh',
  sh: 'sh',
  shell: 'sh',
  bash: 'bash',
};
const opening = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;

/**
 * Returns the fenced code blocks of a Markdown text that are tagged sh, shell or bash, or have no
 * tag. A block without a closing fence is ignored, because the block may be truncated, and half a
 * command can do harm.
 */
export function shellBlocksOf(markdown: string): readonly CodeBlock[] {
  const blocks: CodeBlock[] = [];
  let open: { readonly fence: string; readonly tag: string; readonly lines: string[] } | undefined;
  for (const line of markdown.split(/\r?\n/)) {
    if (open === undefined) {
      const match = opening.exec(line);
      if (match !== null)
        open = { fence: match[1] ?? '', tag: (match[2] ?? '').toLowerCase(), lines: [] };
    } else if (closes(line, open.fence)) {
      const shell = shells[open.tag];
      const code = open.lines.join('\n');
      if (shell !== undefined && code.trim() !== '') blocks.push({ shell, code });
      open = undefined;
    } else {
      open.lines.push(line);
    }
  }
  return blocks;
}

/**
 * Returns whether a line closes a fence: the line contains only the character of the fence, at
 * least as often.
 */
function closes(line: string, fence: string): boolean {
  const text = line.trim();
  return (
    /^ {0,3}\S/.test(line) &&
    text.length >= fence.length &&
    text === fence.charAt(0).repeat(text.length)
  );
}
