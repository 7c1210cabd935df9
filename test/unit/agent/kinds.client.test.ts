import type { AgentClient, AgentEndpoint } from '../../../src/agent/agent.ts';
import { ClientOfKinds } from '../../../src/agent/kinds.ts';
import { createAgentClient, kindDefinitions } from '../../../src/agent/kinds.ts';
import { OpenHandsClient } from '../../../src/agent/openhands-client.ts';
import type { AgentKind } from '../../../src/resources/agent-settings.ts';

const methods = Object.getOwnPropertyNames(OpenHandsClient.prototype).filter(
  (name) => name !== 'constructor',
) as (keyof AgentClient)[];

/** Records which client got each call, and with what. */
const recorder = (name: string): AgentClient =>
  Object.fromEntries(
    methods.map((method) => [
      method,
      (...given: unknown[]) => Promise.resolve([name, method, ...given]),
    ]),
  ) as never;

// The name of a second kind: the compiler knows only the kinds that exist.
const other = 'other' as AgentKind;
const client = new ClientOfKinds(
  new Map([
    ['openhands', recorder('openhands')],
    [other, recorder('other')],
  ]),
);

describe.each(methods.filter((method) => method !== 'close'))('%s', (method) => {
  it.each<[string, AgentKind | undefined, string]>([
    ["goes to the client of its agent's kind", other, 'other'],
    ['goes to openhands where none is recorded', undefined, 'openhands'],
  ])('%s, with all that was given', async (_name, kind, expected) => {
    const endpoint: AgentEndpoint = { baseUrl: 'http://agent', sessionKey: 's', kind };
    const call = client[method] as (...given: unknown[]) => Promise<unknown>;
    expect(await call(endpoint, 'one', 'two', { signal: undefined })).toEqual([
      expected,
      method,
      endpoint,
      'one',
      'two',
      { signal: undefined },
    ]);
  });
});

it('an agent of a kind that is not known here gets no call', () => {
  const call = () =>
    client.run({ baseUrl: 'http://agent', sessionKey: 's', kind: 'none' as AgentKind }, 'id');
  expect(call).toThrow('there is no client for agents of the kind none');
});

it('every kind has a client, and a container that holds no key but the one to be given others', async () => {
  await createAgentClient().close();
  for (const kind of Object.values(kindDefinitions)) {
    const { env, readinessProbe } = kind.container({
      port: 9,
      workingDir: '/w',
      stateDir: '/w/.agent',
      bootstrapKey: 'boot',
    });
    expect(kind.defaultPort).toBeGreaterThan(0);
    expect(readinessProbe.httpGet.port).toBe(9);
    expect(env.filter(({ value }) => value === 'boot')).toHaveLength(1);
  }
});
