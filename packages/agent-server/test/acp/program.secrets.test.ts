import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Conversation } from '../../src/conversation.ts';
import { SecretBox, withSecrets, type Secret } from '../../src/secrets.ts';
import { LookupServer } from '../lookup-server.ts';
import {
  allowed,
  becomes,
  errorOf,
  eventsOf,
  fake,
  message,
  Place,
  saidBy,
  until,
} from './place.ts';

const box = new SecretBox('key');
const sealed = (secrets: Readonly<Record<string, Secret>>) =>
  withSecrets({ sealedSecrets: {} }, secrets, box);

const textsOf = (folder: string): string =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
    .join('\n');

const skippedIn = async (conversation: Conversation) =>
  (await eventsOf(conversation)).flatMap((event) =>
    'key' in event && event.key === 'acp_secrets_skipped' ? [event.value] : [],
  );

const values = {
  OWN: 'a-value of "two"\nlines and "quotes"',
  OTHER: 'value-from-the-server',
  NUMBER: '9876543210',
};

describe('the secrets of a conversation with an agent by the Agent Client Protocol', () => {
  it('reach its process, and nothing of them is in an event, sent to a client, or on the disk when it prints its environment', async () => {
    await using lookups = await LookupServer.start();
    lookups.answers.set('/t', values.OTHER);
    await using place = new Place();
    const secrets = {
      OWN: { value: values.OWN },
      OTHER: lookups.secret('/t'),
      NUMBER: { value: values.NUMBER },
    };
    const conversation = await place.start('say One.', sealed(secrets));
    await becomes(conversation, 'finished', 'error');
    const sent: unknown[] = [];
    conversation.live.subscribe((delta) => sent.push(delta));
    conversation.log.subscribe((events) => sent.push(...events));
    await conversation.post(message('leak'), { run: true });
    await becomes(conversation, 'waiting_for_confirmation', 'error', 'finished');
    const offered = conversation.approval?.options.map(({ option_id }) => option_id.split('=')[0]);
    expect(offered).toContain('yes');
    expect(offered).not.toContain('NUMBER');
    await conversation.respond(allowed);
    await becomes(conversation, 'error', 'finished');
    expect(await errorOf(conversation)).toMatchObject({ code: 'AcpPromptRefused' });

    const said = (await saidBy(conversation)).join('');
    for (const name of Object.keys(values)) expect(said).toContain(`${name}=<secret-hidden>\n`);
    const events = await eventsOf(conversation);
    for (const kind of ['ACPToolCallEvent', 'ConversationErrorEvent', 'ActionEvent'])
      expect(JSON.stringify(events.filter((event) => event.kind === kind))).toContain(
        'NUMBER=<secret-hidden>',
      );
    const live = sent.filter(
      (event) => (event as { readonly kind: string }).kind === 'StreamingDeltaEvent',
    ) as readonly { readonly content: string | null }[];
    expect(live.map(({ content }) => content ?? '').join('')).toContain('OTHER=<secret-hidden>\n');
    const everything = [JSON.stringify(events), JSON.stringify(sent), textsOf(place.folder)].join();
    for (const value of [...Object.values(values), 'key-of-lookups', '/t"'])
      for (const form of [value, JSON.stringify(value).slice(1, -1)])
        expect(everything).not.toContain(form);
  });

  it('are read again by the next process and by the next server', async () => {
    await using lookups = await LookupServer.start();
    lookups.answers.set('/t', 'first-value');
    await using place = new Place();
    const first = await place.start('environment OTHER', sealed({ OTHER: lookups.secret('/t') }));
    await becomes(first, 'finished', 'error');
    lookups.answers.set('/t', 'second-value');
    const conversation = await place.crash();
    await conversation.post(message('environment OTHER\nsay second-value'), { run: true });
    await becomes(conversation, 'finished', 'error');
    expect(place.lines('answers.txt')).toEqual(['OTHER=first-value', 'OTHER=second-value']);
    expect(await saidBy(conversation)).toEqual(['<secret-hidden>']);
  });

  it('are left out when they can not be read or would replace a variable of the bridge, which is recorded once', async () => {
    await using lookups = await LookupServer.start();
    lookups.answers.set('/t', 404);
    await using place = new Place({ ACP_ENV: '{"MODE":"bridge"}' });
    const secrets = {
      PATH: { value: '/evil' },
      HOME: { value: '/evil' },
      LD_PRELOAD: { value: '/evil' },
      MODE: { value: 'evil' },
      GONE: lookups.secret('/t'),
      TOKEN: { value: 'tttt' },
    };
    const text =
      'environment PATH\nenvironment HOME\nenvironment LD_PRELOAD\nenvironment MODE\nenvironment GONE\nenvironment TOKEN\ndie here';
    const conversation = await place.start(text, sealed(secrets));
    await becomes(conversation, 'finished', 'error');
    const [path, ...rest] = place.lines('answers.txt');
    expect(path).toBe(`PATH=${process.env['PATH'] ?? ''}`);
    expect(rest[0]).toMatch(/^HOME=.+\/home$/);
    expect(rest.slice(1)).toEqual(['LD_PRELOAD=', 'MODE=bridge', 'GONE=', 'TOKEN=tttt']);
    expect(place.lines('prompts.txt')).toHaveLength(2);
    expect(await skippedIn(conversation)).toEqual([['GONE', 'HOME', 'LD_PRELOAD', 'MODE', 'PATH']]);
  });

  it('are waited for by an interrupt no longer than by their reader', async () => {
    await using lookups = await LookupServer.start();
    await using place = new Place();
    const conversation = await place.start('say One.', sealed({ SLOW: lookups.secret('/slow') }));
    await until(() => lookups.requests.length > 0);
    await conversation.stop('interrupt');
    expect(conversation.status).toBe('paused');
    expect(place.lines('prompts.txt')).toEqual([]);
  });

  it('fail the agent whose session has one in its id', async () => {
    await using place = new Place();
    const command = [process.execPath, fake];
    const conversation = await place.start(
      'say One.',
      sealed({ A: { value: 'session-' } }),
      command,
    );
    await becomes(conversation, 'finished', 'error');
    expect(await errorOf(conversation)).toMatchObject({
      code: 'AcpAgentFailed',
      detail: 'The id of the session of the agent holds a secret.',
    });
  });
});
