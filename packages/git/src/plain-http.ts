import { branchOf, isCommitSha, RefList, type Refs } from './ref-list.ts';

/**
 * The list in the file `info/refs` of a host that only serves files, which git calls a dumb host;
 * undefined when it is none. A truncated last line is left out.
 */
export function readPlainList(body: Buffer, named: string | undefined): Refs | undefined {
  const text = body.toString('utf8');
  const list = new RefList(named);
  const lines = text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .slice(0, -1);
  for (const line of lines) {
    const [commitSha = '', name, ...rest] = line.split('\t');
    if (!isCommitSha(commitSha) || name === undefined || rest.length > 0) return undefined;
    list.add(commitSha, name);
  }
  return lines.length > 0 ? list.refs() : undefined;
}

/**
 * The default branch in the file HEAD of a host that only serves files; undefined where HEAD names
 * no branch.
 */
export function readPlainHead(text: string): string | undefined {
  const target = /^ref: (\S+)\s*$/.exec(text)?.[1];
  return target === undefined ? undefined : branchOf(target);
}
