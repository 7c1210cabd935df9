import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readGatewayConfig } from '../../../src/config/cluster.ts';
import { signInOf } from '../../../src/commands/gateway-wiring.ts';
import { directly } from '@conversation-operator/outward/outward';
import type { TransportRequest } from '@conversation-operator/kube/transport';

const folder = mkdtempSync(join(tmpdir(), 'sign-in-'));
afterAll(() => rmSync(folder, { recursive: true }));

const audience = 'conversation-operator';
const username = 'system:serviceaccount:ci:runner';

/** The requests of the gateway about a token, and its result for this answer. */
async function reviewed(status: object) {
  const file = join(folder, 'sign-in.yaml');
  writeFileSync(
    file,
    'serviceAccounts: { tokenReview: true, rules: [{ namespace: ci, name: runner, owner: ci }] }',
  );
  const requests: TransportRequest[] = [];
  const call = (request: TransportRequest) => {
    requests.push(request);
    return Promise.resolve({ kind: 'TokenReview', metadata: {}, status });
  };
  const config = readGatewayConfig({ SIGN_IN_FILE: file, MASTER_KEY_FILES: '/key' });
  const { serviceAccounts } = signInOf(config, { outward: directly }, { call }).signIn;
  const user = await serviceAccounts?.review('a-token', audience);
  return { user, requests };
}

describe('the review of a token', () => {
  it('asks for the audience of the gateway', async () => {
    const { requests } = await reviewed({ authenticated: false });
    expect(requests).toEqual([
      {
        verb: 'create',
        resource: 'tokenreviews',
        method: 'POST',
        path: '/apis/authentication.k8s.io/v1/tokenreviews',
        body: {
          apiVersion: 'authentication.k8s.io/v1',
          kind: 'TokenReview',
          spec: { token: 'a-token', audiences: [audience] },
        },
      },
    ]);
  });

  it.each<[string, object, string | undefined]>([
    ['accepted', { authenticated: true, audiences: [audience], user: { username } }, username],
    ['refused', { authenticated: false, error: 'pod is gone' }, undefined],
    [
      'accepted for another audience',
      { authenticated: true, audiences: ['x'], user: { username } },
      undefined,
    ],
    [
      'accepted by a server that knows no audiences',
      { authenticated: true, user: { username } },
      undefined,
    ],
    ['accepted for nobody', { authenticated: true, audiences: [audience] }, undefined],
    ['not judged', {}, undefined],
  ])('of a token that is %s', async (_case, status, expected) => {
    expect((await reviewed(status)).user).toBe(expected);
  });
});
