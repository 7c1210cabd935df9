import { silentLogger } from '@conversation-operator/base/logger';
import { StatusWriter } from '../../../../../src/controllers/conversation/status-writer.ts';
import {
  StartErrorCode,
  StartFailure,
} from '../../../../../src/controllers/conversation/start/stage.ts';
import { withFailure } from '../../../../../src/controllers/conversation/start/start-status.ts';
import { createMetrics } from '../../../../../src/observability/metrics.ts';
import { cachedConversation } from '../../../../../src/resources/cached-conversation.ts';
import { conversations } from '../../../../../src/resources/conversation.ts';
import { aStoredConversation, noon, noonMs } from '../../../../support/builders.ts';
import { FakeKubeClient } from '../../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

it.each([
  [StartErrorCode.quotaExceeded, 'QuotaExceeded'],
  ['StartDeadlineExceeded', 'StartDeadlineExceeded'],
  ['ImagePullFailed', 'ImagePullFailed'],
  ['TenantsOwnCode', 'other'],
])('a start that fails with the code %s is counted with the code %s', async (code, counted) => {
  const client = new FakeKubeClient();
  const clock = new VirtualClock(noonMs);
  const metrics = createMetrics();
  const writer = new StatusWriter({
    client,
    clock,
    metrics,
    logger: silentLogger,
    events: { record: () => undefined },
    answers: { remember: () => undefined },
  });
  const before = cachedConversation(await client.create(conversations, aStoredConversation()));
  const next = withFailure({}, new StartFailure(code, 'The start has failed.'), noon);
  await writer.write(before, { next, isPolled: false }, new AbortController().signal);
  const { values } = await metrics.starts.get();
  expect(values.map(({ labels }) => labels)).toEqual([{ outcome: 'ERROR', code: counted }]);
});
