import { pushNotice } from '../../../../../src/controllers/conversation/git/git-access.ts';

const policy = { enabled: true, branches: ['agent/*', 'x'], maxMebibytes: 1, maxPerHour: 1 };

const closed = { opensPullRequests: false };

it.each([
  [
    policy,
    /^You may push to acme\/shop .* match `agent\/\*` or `x`: .* forced pushes are refused\.$/,
  ],
  [{ ...policy, enabled: false }, /^Do not push to acme\/shop/],
  [{ ...policy, branches: [] }, /^Do not push to acme\/shop/],
])('of %j says so', (given, expected) => {
  expect(pushNotice('acme/shop', given, closed)).toMatch(expected);
});

it('names the tool for pull requests where the agent has it', () => {
  expect(pushNotice('acme/shop', policy, { opensPullRequests: true })).toMatch(
    / Your tool create_pull_request, .* opens a pull request from a branch that you have pushed\.$/,
  );
});
