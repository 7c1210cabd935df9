import { systemClock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { Reflector } from '@conversation-operator/kube/reflector';
import { silentLogger } from '@conversation-operator/base/logger';
import {
  cachedConversation,
  maxCachedTextBytes,
  storedBytesOf,
} from '../../../src/resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../../src/resources/conversation.ts';
import { aConversation } from '../../support/builders.ts';
import { eventually } from '../../support/eventually.ts';
import { aTransport, json, type Answering } from '../../../packages/kube/test/api-stub.ts';

let cleanUp: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of cleanUp.toReversed()) await close();
  cleanUp = [];
});

const long = 'The page shows “no entries”,\n\tthough there are \\some\\ of them. '.repeat(3000);

function aLarge(name: string, text = long): Conversation {
  const {
    storedBytes: _bytes,
    firstWords: _words,
    lacksSteps: _steps,
    ...object
  } = aConversation({ name });
  const output = `${text.slice(0, 4000)} end`;
  const time = '2026-03-01T12:00:00Z';
  const step = {
    name: 'setup',
    state: 'running',
    startedAt: time,
    updatedAt: time,
    output,
  } as const;
  return {
    ...object,
    spec: {
      ...object.spec,
      initialMessage: { role: 'user', run: true, content: [{ type: 'text', text }] },
      messages: [
        {
          role: 'user',
          run: true,
          number: 1,
          id: 'm1',
          content: [{ type: 'image', imageUrls: [text, 'data:,x'] }],
        },
      ],
    },
    status: { start: { status: 'SETTING_UP_SKILLS', transitions: [], steps: [step] } },
  };
}

/**
 * An API server that lists these, page by page, and then sends those as events, in chunks that end
 * within lines.
 */
async function serverOf(listed: readonly Conversation[], events: readonly Conversation[]) {
  const pageOf: Answering = (response, request) => {
    const from = Number(request.query['continue'] ?? 0);
    const next = from + 1 < listed.length ? { continue: String(from + 1) } : {};
    json({ metadata: { resourceVersion: '7', ...next }, items: listed.slice(from, from + 1) })(
      response,
      request,
    );
  };
  const watched: Answering = (response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const bytes = Buffer.from(
      events.map((object) => `${JSON.stringify({ type: 'ADDED', object })}\n`).join(''),
    );
    for (let at = 0; at < bytes.length; at += 100_001)
      response.write(bytes.subarray(at, at + 100_001));
  };
  const answer: Answering = (response, request) => {
    const name = /conversations\/(.+)$/.exec(request.path)?.[1];
    if (name !== undefined)
      json(listed.find(({ metadata }) => metadata.name === name))(response, request);
    else if (request.query['watch'] === undefined) pageOf(response, request);
    else watched(response, request);
  };
  const made = await aTransport([answer]);
  cleanUp.push(made.close);
  return new HttpKubeClient({ transport: made.transport });
}

describe('a list and a watch that need no long texts', () => {
  it('give a cache the same as whole objects', async () => {
    const [first, second, small, watched, last] = [
      aLarge('first'),
      aLarge('second', `${long}${long.slice(0, 60)}`),
      aLarge('small', 'short'),
      aLarge('watched'),
      aLarge('last', 'short'),
    ];
    const client = await serverOf([first, second, small], [watched, last]);
    const seen: {
      readonly name: string;
      readonly characters: number;
      readonly removedBytes: number;
    }[] = [];
    const reflector = new Reflector({
      client,
      resource: conversations,
      clock: systemClock,
      random: Math.random,
      logger: silentLogger,
      maxTextBytes: maxCachedTextBytes,
      transform: (object: Conversation, removedBytes) => {
        seen.push({
          name: object.metadata.name,
          characters: JSON.stringify(object.spec).length,
          removedBytes,
        });
        return cachedConversation(object, undefined, removedBytes);
      },
    });
    cleanUp.push(() => reflector.stop());
    reflector.start();
    await eventually('all conversations are in the cache', () => reflector.store.size === 5);
    for (const whole of [first, second, small, watched, last])
      expect(reflector.store.get('default', whole.metadata.name)).toEqual(
        cachedConversation(whole),
      );
    expect(seen.map(({ name }) => name)).toEqual(['first', 'second', 'small', 'watched', 'last']);
    for (const { characters } of seen) expect(characters).toBeLessThan(20_000);
    expect(seen.map(({ removedBytes }) => removedBytes > 300_000)).toEqual([
      true,
      true,
      false,
      true,
      false,
    ]);
    expect(reflector.store.get('default', 'first')?.storedBytes).toBe(storedBytesOf(first));
  });

  it('leave other reads whole', async () => {
    const whole = aLarge('first');
    const client = await serverOf([whole], []);
    expect(await client.get(conversations, 'default', 'first')).toEqual(whole);
    expect((await client.list(conversations)).items).toEqual([whole]);
  });
});
