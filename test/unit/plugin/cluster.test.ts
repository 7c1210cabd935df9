import { ApiError, TransportError } from '@conversation-operator/kube/errors';
import { inWords } from '../../../src/plugin/cluster.ts';
import { ProblemError } from '../../../src/gateway/errors/problem-error.ts';

const server = 'https://cluster.example.com';
const list = { verb: 'list', plural: 'conversations', name: undefined } as const;
const words = (
  error: unknown,
  namespace = 'agents',
  call: Parameters<typeof inWords>[1]['call'] | null = list,
) => (inWords(error, { server, namespace, call: call ?? undefined }) as Error).message;
const forbidden = new ApiError(403, { reason: 'Forbidden', message: 'no' });

it.each([
  [
    'a missing right',
    words(forbidden),
    'You may not list conversations in the namespace agents. The cluster says: no',
  ],
  [
    'a missing right in all namespaces',
    words(forbidden, ''),
    'You may not list conversations in all namespaces. The cluster says: no',
  ],
  [
    'a missing right on an object',
    words(forbidden, 'agents', { verb: 'patch', plural: 'sandboxes', name: 'sbx-1' }),
    'You may not patch sandboxes (sbx-1) in the namespace agents. The cluster says: no',
  ],
  [
    'no cluster',
    words(new TransportError('connect ECONNREFUSED')),
    `No answer from the cluster at ${server}: connect ECONNREFUSED`,
  ],
  [
    'bad credentials',
    words(new ApiError(401, { message: 'Unauthorized' })),
    `The cluster at ${server} does not accept your credentials: Unauthorized`,
  ],
  [
    'a cluster without the operator',
    words(
      new ApiError(404, { message: 'the server could not find the requested resource' }),
      'agents',
      null,
    ),
    `The cluster at ${server} has no kinds of conversation-operator.dev: conversation-operator is not installed there`,
  ],
  [
    'an invalid object',
    words(new ApiError(422, { reason: 'Invalid', message: 'spec.title is too long' })),
    'The cluster refuses: spec.title is too long',
  ],
  [
    'a rule of the gateway',
    words(new ProblemError('wrong-state', 'The sandbox is in MISSING.')),
    'The sandbox is in MISSING.',
  ],
])('%s is said in words', (_name, text, expected) => {
  expect(text).toBe(expected);
});

it('a mistake of the program keeps its stack', () => {
  const mistake = new TypeError('x is undefined');
  expect(inWords(mistake, { server, namespace: 'agents', call: undefined })).toBe(mistake);
});
