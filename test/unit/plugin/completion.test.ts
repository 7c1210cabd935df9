import { completionScript, completionsOf, shells } from '../../../src/plugin/completion.ts';
import { pluginProgram } from '../../../src/plugin/program.ts';

const asked: unknown[] = [];
const complete = async (...words: readonly string[]) => {
  asked.length = 0;
  const found = await completionsOf(pluginProgram('1.2.3'), words, (options) => {
    asked.push(options);
    return Promise.resolve(['asks\tA title', 'waits\tAnother']);
  });
  return found.map((each) => each.split('\t')[0]);
};

it('completes commands, without the one that completes', async () => {
  expect(await complete('')).toEqual([
    ...['start', 'list', 'why', 'events', 'say', 'approve', 'reject', 'pause', 'resume'],
    ...['delete', 'quota', 'open', 'login', 'completion'],
  ]);
  expect(await complete('re')).toEqual(['reject', 'resume']);
});

it.each([
  [
    ['why', ''],
    ['asks', 'waits'],
  ],
  [['why', 'w'], ['waits']],
  [['say', 'asks', ''], []],
  [['list', ''], []],
  [['nothing', ''], []],
  [
    ['list', '-o', ''],
    ['json', 'yaml', 'wide', 'name'],
  ],
  [['list', '--output', 'y'], ['yaml']],
  [
    ['completion', ''],
    ['bash', 'zsh', 'fish'],
  ],
  [['reject', '--r'], ['--reason']],
])('completes %j by %j', async (words, expected) => {
  expect(await complete(...words)).toEqual(expected);
});

it('reads the names where the words before say', async () => {
  await complete('why', '-n', 'agents', '--context=work', 'a');
  expect(asked).toEqual([{ namespace: 'agents', context: 'work' }]);
});

it.each(shells)('has a script for %s that calls the plugin', (shell) => {
  expect(completionScript(shell)).toContain('kubectl-conversations __complete');
});
