import {
  cloneFailure,
  type PreparationLimits,
} from '../../../../../src/controllers/conversation/start/preparation-failures.ts';

const limits: PreparationLimits = {
  cloneTimeoutSeconds: 600,
  setupTimeoutSeconds: 600,
  maxRepositoryMebibytes: 1024,
};
const failureOf = (output: string) =>
  cloneFailure(
    { state: 'done', exitCode: 243, folder: '/workspace', output },
    { name: 'team/app' },
    limits,
  );
const advice = /Check the DNS of the cluster, and whether the NetworkPolicies .* Git says: /;

it.each([
  [
    'git',
    "fatal: unable to access 'https://git.example.com/team/app/': Could not resolve host: git.example.com",
  ],
  ['ssh', 'ssh: Could not resolve hostname git.example.com: Name or service not known'],
])('a name that %s can not resolve leads to DNS and NetworkPolicies', (_program, output) => {
  const failure = failureOf(output);
  expect(failure?.code).toBe('RepositoryUnavailable');
  expect(failure?.message).toMatch(advice);
  expect(failure?.message).toContain(output);
});

it('another failure of a clone has the words of git alone', () => {
  expect(failureOf('fatal: early EOF')?.message).toBe(
    'The repository team/app could not be cloned: fatal: early EOF',
  );
});
