import { silentLogger } from '@conversation-operator/base/logger';
import { directly } from '@conversation-operator/outward/outward';
import type { GitCredentials } from '../../../../src/gateway/git/hosts.ts';
import { PrivateHost } from '../../../../src/gateway/git/private-host.ts';
import { RepositoryAccessChecker } from '../../../../src/gateway/git/directory.ts';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import { startJsonHost, type JsonHost } from '../../../support/json-host.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

describe('a credential that a git host refuses', () => {
  let host: JsonHost;
  let status: number;
  let refusals: number;
  const asked: unknown[] = [];
  const clock = new VirtualClock();
  const credentials: GitCredentials = {
    of: (...wanted) => {
      asked.push(wanted);
      const refused = () => {
        refusals += 1;
      };
      return Promise.resolve({
        authorization: 'Basic eDp5',
        token: 'y',
        name: 'an app',
        identity: '1',
        refused,
      });
    },
  };
  const common = { credentials, clock, logger: silentLogger, outward: directly };
  const wanted = { owner: 'alice', provider: 'github', repository: 'acme/shop' };

  beforeEach(async () => {
    refusals = 0;
    asked.length = 0;
    host = await startJsonHost(({ headers }) => ({
      status: headers.authorization === undefined ? 401 : status,
    }));
  });
  afterEach(() => host.close());

  it.each([
    [401, 1],
    [403, 0],
    [404, 0],
  ])('by status %i is refused %i times in a clone', async (answer, expected) => {
    status = answer;
    const privateHost = new PrivateHost({ ...common, hosts: { github: host.url }, connections: 1 });
    const { signal } = new AbortController();
    const relayed = { relaysOpen: false, headers: {}, signal };
    const service = 'git-upload-pack';
    expect(await privateHost.advertisement({ ...wanted, ...relayed, service })).toEqual({
      kind: 'denied',
    });
    expect(refusals).toBe(expected);
    expect(asked).toEqual([['alice', 'github', 'acme/shop']]);
    await privateHost.close();
  });

  it.each([
    [401, 1],
    [404, 0],
  ])('by status %i is refused %i times in a check', async (answer, expected) => {
    status = answer;
    const checker = new RepositoryAccessChecker({
      ...common,
      hosts: { github: host.url },
      timeoutMs: 60_000,
      metrics: createMetrics(),
    });
    expect(await checker.access(wanted)).toBe('denied');
    expect(refusals).toBe(expected);
    expect(asked).toEqual([['alice', 'github', 'acme/shop']]);
    await checker.close();
  });
});
