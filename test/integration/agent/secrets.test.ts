import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { newUuid } from '@conversation-operator/base/uuid';
import type { AgentEndpoint } from '../../../src/agent/agent.ts';
import { LookupServer } from '../../../packages/agent-server/test/lookup-server.ts';
import { AgentVolume, call, eventsOf, script } from './agent-process.ts';

/** Creates a conversation of commands that has secrets. */
async function begin(
  volume: AgentVolume,
  endpoint: AgentEndpoint,
  secrets: object,
  ...blocks: readonly string[]
): Promise<string> {
  const id = newUuid(Date.now());
  const { status } = await call(endpoint, 'POST /api/conversations', {
    conversation_id: id,
    workspace: { working_dir: volume.workingDir },
    agent_settings: {},
    initial_message: script(...blocks),
    secrets,
  });
  expect(status).toBe(201);
  await volume.until(endpoint, id, 'finished', 'error');
  return id;
}

async function outputsOf(endpoint: AgentEndpoint, id: string): Promise<readonly string[]> {
  const events = await eventsOf(endpoint, id, 'kind=ObservationEvent');
  return events.map(
    ({ observation }) =>
      (observation as { readonly content: readonly { readonly text: string }[] }).content[0]
        ?.text ?? '',
  );
}

const filesOf = (folder: string): string =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
    .join('\n');

describe('the secrets of a conversation', () => {
  it('are read from their server by the commands that name them, and hidden from then on', async () => {
    await using lookups = await LookupServer.start();
    lookups.answers.set('/t', 'value-of-token');
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const id = await begin(
      ...([volume, endpoint, { TOKEN: lookups.secret('/t') }] as const),
      'printf value-of-token',
      'test "$TOKEN" = value-of-token && echo "<$TOKEN>"',
      'printf value-of-; printf token',
    );
    expect(await outputsOf(endpoint, id)).toEqual([
      'value-of-token',
      '<<secret-hidden>>\n',
      '<secret-hidden>',
    ]);
    expect(lookups.requests).toEqual(['/t']);
  });

  it('are nowhere on the disk, and not in the conversation', async () => {
    await using lookups = await LookupServer.start();
    lookups.answers.set('/t', 'value-of-token');
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const secrets = { TOKEN: lookups.secret('/t'), OWN: { value: 'value-of-own' } };
    const id = await begin(volume, endpoint, secrets, 'env # TOKEN OWN');
    const [output] = await outputsOf(endpoint, id);
    expect(output).toContain('TOKEN=<secret-hidden>\n');
    expect(output).toContain('OWN=<secret-hidden>\n');
    const { body } = await call(endpoint, `GET /api/conversations/${id}`);
    const texts = [filesOf(volume.folder), JSON.stringify(body)].join('\n');
    for (const text of ['value-of-', 'key-of-lookups', lookups.secret('/t').url])
      expect(texts).not.toContain(text);
  });

  it('are missing in a command when they can not be read, which its output says', async () => {
    await using lookups = await LookupServer.start();
    lookups.answers.set('/t', 500);
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const command = 'echo "<$TOKEN>"';
    const id = await begin(volume, endpoint, { TOKEN: lookups.secret('/t') }, command);
    expect(await outputsOf(endpoint, id)).toEqual(['The secret TOKEN could not be read.\n<>\n']);
    expect(lookups.requests).toEqual(['/t', '/t']);
  });

  it('are read by the next server as well', async () => {
    await using lookups = await LookupServer.start();
    lookups.answers.set('/t', 'first-value');
    await using volume = await AgentVolume.create();
    const first = await volume.startReady();
    const secrets = { TOKEN: lookups.secret('/t') };
    const id = await begin(volume, first.endpoint, secrets, 'echo $TOKEN');
    await first.stop('SIGKILL');
    lookups.answers.set('/t', 'second-value');
    const { endpoint } = await volume.startReady();
    await volume.client.sendMessage(
      endpoint,
      id,
      script('test $TOKEN = second-value && echo $TOKEN'),
    );
    await volume.until(endpoint, id, 'finished');
    expect(await outputsOf(endpoint, id)).toEqual(['<secret-hidden>\n', '<secret-hidden>\n']);
  });

  it('are added and replaced later, at once for all commands', async () => {
    await using lookups = await LookupServer.start();
    lookups.answers.set('/t', 'value-of-lookup');
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const id = await begin(volume, endpoint, { A: { value: 'first-value' } }, 'echo $A');
    const added = await Promise.all([
      call(endpoint, `POST /api/conversations/${id}/secrets`, { secrets: { A: 'second-value' } }),
      call(endpoint, `POST /api/conversations/${id}/secrets`, {
        secrets: { B: lookups.secret('/t'), C: { value: 'third-value' } },
      }),
    ]);
    expect(added).toEqual(Array(2).fill({ status: 200, body: { success: true } }));
    const command = 'test "$A$B$C" = second-valuevalue-of-lookupthird-value && echo first-value $A';
    await volume.client.sendMessage(endpoint, id, script(command));
    await volume.until(endpoint, id, 'finished');
    const [, output] = await outputsOf(endpoint, id);
    expect(output).toBe('<secret-hidden> <secret-hidden>\n');
    expect(filesOf(volume.folder)).not.toContain('third-value"');
  });

  it.each<[string, object]>([
    ['an address of another scheme', { kind: 'LookupSecret', url: 'file:///hidden' }],
    [
      'a header that ends its line',
      { kind: 'LookupSecret', url: 'http://h/', headers: { K: 'hidden\n' } },
    ],
    ['no value', { kind: 'StaticSecret' }],
    ['a kind that is not known', { kind: 'Other', value: 'hidden' }],
  ])('are refused with %s', async (_case, secret) => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const body = {
      workspace: { working_dir: volume.workingDir },
      agent_settings: {},
      secrets: { A: secret },
    };
    const answer = await call(endpoint, 'POST /api/conversations', body);
    expect(answer.status).toBe(422);
    expect(JSON.stringify(answer)).not.toContain('hidden');
  });

  it('are refused for a conversation that is not there', async () => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const route = `POST /api/conversations/${newUuid(0)}/secrets`;
    expect((await call(endpoint, route, { secrets: { A: 'value' } })).status).toBe(404);
  });
});
