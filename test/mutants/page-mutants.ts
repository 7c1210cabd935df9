import type { TestedMutant } from './tested-mutant.ts';

const diff = { file: 'src/web/line-diff.ts', test: 'test/unit/web/line-diff.test.ts' } as const;

export const pageMutants: Readonly<Record<string, TestedMutant>> = {
  'a run whose last command failed is done': {
    file: 'src/sentences/groups.ts',
    from: "|| resultPill(conversation)?.icon === 'alert'",
    to: '',
    test: 'test/unit/sentences/groups.test.ts',
    name: 'the last command failed',
  },
  'a diff reorders its line by a bidirectional control': {
    ...diff,
    from: '\\u2028-\\u202e',
    to: '\\u2028-\\u2029',
    name: 'marks invisible characters',
  },
  'a binary file shows as lines': {
    ...diff,
    from: "before.includes('\\0') ||",
    to: '',
    name: 'of a binary file has words in place of lines',
  },
  'a diff does not count the lines that it leaves out': {
    ...diff,
    from: 'hidden += 1;',
    to: ';',
    name: 'counts all lines',
  },
  'a deletion of many reaches a row that has changed after the question': {
    file: 'src/web/many.ts',
    from: 'rows.filter(isSame).values()',
    to: 'rows.values()',
    test: 'test/unit/web/many.test.ts',
    name: 'leaves a row as it is that has changed',
  },
  'a deletion of many reaches a row that has changed after its first request': {
    file: 'src/web/many.ts',
    from: '!isOfSandbox && !isSame(row)',
    to: 'false',
    test: 'test/unit/web/many.test.ts',
    name: 'leaves a row that changes its group',
  },
  'a page renders every message that an agent claims to write': {
    file: 'src/web/live-texts.ts',
    from: 'texts.findLast(({ kind, text })',
    to: 'texts.filter(({ kind, text })',
    test: 'test/unit/web/live-texts.test.ts',
    name: 'has at most one thought and one message',
  },
  'the plugin of kubectl sends the key of a login to any server': {
    file: 'src/plugin/service.ts',
    from: 'login?.server === server ? login?.key : undefined',
    to: 'login?.key',
    test: 'test/unit/plugin/service.test.ts',
    name: 'goes to the server of that login alone',
  },
  'the plugin of kubectl takes the first of several conversations': {
    file: 'src/plugin/names.ts',
    from: 'if (others.length === 0) return found;',
    to: 'return found;',
    test: 'test/unit/plugin/names.test.ts',
    name: 'several candidates are named',
  },
  'the plugin of kubectl prints 8-bit control characters': {
    file: 'src/plugin/terminal.ts',
    from: '[\\p{Cc}\\p{Cf}',
    to: '[\\u0000-\\u001f\\p{Cf}',
    test: 'test/unit/plugin/terminal.test.ts',
    name: 'an 8-bit control sequence is shown',
  },
};
