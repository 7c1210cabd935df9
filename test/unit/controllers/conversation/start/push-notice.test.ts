import { pushNotice } from '../../../../../src/controllers/conversation/start/push-notice.ts';

const policy = { enabled: true, branches: ['agent/*', 'x'], maxMebibytes: 1, maxPerHour: 1 };

it.each([
  [
    policy,
    /^You may push to acme\/shop .* match `agent\/\*` or `x`: .* forced pushes are refused\.$/,
  ],
  [{ ...policy, enabled: false }, /^Do not push to acme\/shop/],
  [{ ...policy, branches: [] }, /^Do not push to acme\/shop/],
])('of %j says so', (given, expected) => {
  expect(pushNotice('acme/shop', given)).toMatch(expected);
});
