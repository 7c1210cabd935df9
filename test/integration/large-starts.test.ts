import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

const count = 75;
const atOnce = 5;
const picture = `data:image/png;base64,${'A'.repeat(230_000)}`;
const start = {
  initial_message: {
    role: 'user',
    content: [
      { type: 'text', text: 'See the screenshots.' },
      { type: 'image', image_urls: [picture, picture, picture, picture] },
    ],
  },
};

interface Task {
  readonly id: string;
  readonly request: {
    readonly initial_message: { readonly content: readonly { readonly text?: string }[] };
  };
}

/** All starts of an owner's key were once one list response, too large for a fresh process. */
it(`answers again after a restart with ${count} starts of nearly a megabyte each`, async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'conversation-operator-large-'));
  let up = await Installation.start({ dataDir });
  try {
    // By default an owner may store less.
    const waiting = JSON.stringify({
      spec: { limit: 0, onExceeded: 'Queue', maxStoredBytes: 256 * 1024 * 1024 },
    });
    await kubectl(up.kubeconfig, [
      'patch',
      'conversationquotas',
      'default',
      '--type',
      'merge',
      '-p',
      waiting,
    ]);
    const post = () => up.call('POST', '/api/v1/app-conversations', start);
    for (let stored = 0; stored < count;) {
      const answers = await Promise.all(
        Array.from({ length: Math.min(atOnce, count - stored) }, post),
      );
      stored += answers.filter(({ status }) => status === 200).length;
      expect(
        answers.filter(
          ({ status, body }) =>
            status !== 200 && (body as { code?: string }).code !== 'rate-limited',
        ),
      ).toEqual([]);
      await delay(500);
    }
    await up.stop();
    up = await Installation.start({ dataDir, readyMs: 120_000 });
    expect((await up.call('GET', '/api/v1/app-conversations/count')).body).toBe(count);
    const { body } = await up.call('GET', '/api/v1/app-conversations/search?limit=100');
    const { items } = body as { readonly items: readonly { readonly title: string }[] };
    expect(new Set(items.map(({ title }) => title))).toEqual(new Set(['See the screenshots.']));
    const { body: page } = await up.call(
      'GET',
      '/api/v1/app-conversations/start-tasks/search?limit=100',
    );
    const tasks = (page as { readonly items: readonly Task[] }).items;
    expect(tasks.map(({ request }) => request.initial_message.content[0]?.text)).toEqual(
      Array(count).fill('See the screenshots.'),
    );
  } finally {
    await up.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}, 600_000);
