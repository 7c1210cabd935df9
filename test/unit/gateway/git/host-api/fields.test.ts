import { pageUrl } from '../../../../../src/gateway/git/host-api/fields.ts';
import { pullRequestsSchema } from '../../../../../src/resources/pull-request.ts';
import { noon } from '../../../../support/builders.ts';

const addressOf = (length: number) => 'https://git.example.com/'.padEnd(length, 'x');

it('the status of a conversation holds each address that is read', () => {
  const url = pageUrl().parse(addressOf(2048));
  const record = {
    ...{ number: 1, url, provider: 'forgejo', repository: 'acme/shop', title: 'Fix' },
    ...{ head: 'agent/fix', base: 'main', draft: false, state: 'Open', stateTime: noon },
  };
  expect(pullRequestsSchema.safeParse([record]).error).toBeUndefined();
  expect(pageUrl().safeParse(addressOf(2049)).success).toBe(false);
});
