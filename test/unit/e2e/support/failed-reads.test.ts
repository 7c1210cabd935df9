import { failedReads, type ExpectedFailure } from '../../../e2e/support/failed-reads.ts';

const midnight = Date.UTC(2030, 0, 1);
const failure = (second: number, outcome = 'ECONNREFUSED') => ({
  fromMs: midnight + second * 1000,
  untilMs: midnight + second * 1000 + 100,
  outcome,
});
const absence = (component: string, from: number, until: number) => ({
  component,
  fromMs: midnight + from * 1000,
  untilMs: midnight + until * 1000,
});
const expected: readonly ExpectedFailure[] = [
  { component: 'the kubelet', outcomes: ['ECONNREFUSED'], because: 'no pod is ready' },
];

it('reports for each outcome what was away, and which failures are expected', () => {
  const absences = [absence('the kubelet', 10, 20), absence('a gateway', 18, 30)];
  const failures = [failure(11), failure(12), failure(15, '503'), failure(19), failure(29)];
  const { sentences, unexpected } = failedReads(failures, absences, expected);
  const kubelet = 'the kubelet was away from 00:00:10.000 to 00:00:20.000';
  const gateway = 'a gateway was away from 00:00:18.000 to 00:00:30.000';
  expect(sentences).toEqual([
    `2 × ECONNREFUSED while ${kubelet}; the first at 00:00:11.000, the last at 00:00:12.000`,
    `1 × 503 while ${kubelet}; the first at 00:00:15.000, the last at 00:00:15.000`,
    `1 × ECONNREFUSED while ${kubelet}, and ${gateway}; the first at 00:00:19.000, the last at 00:00:19.000`,
    `1 × ECONNREFUSED while ${gateway}; the first at 00:00:29.000, the last at 00:00:29.000`,
  ]);
  expect(unexpected).toEqual([sentences[1], sentences[3]]);
});

it.each([
  ['before it was away', 9.8, false],
  ['that ends while it is away', 9.9, true],
  ['while rules of the Service follow', 22, true],
  ['after that', 22.1, false],
])('judges a failure %s', (_name, second, isExpected) => {
  const { unexpected } = failedReads([failure(second)], [absence('the kubelet', 10, 20)], expected);
  expect(unexpected).toHaveLength(isExpected ? 0 : 1);
});

it('names failures while nothing was away', () => {
  expect(failedReads([failure(1, '500')], [], expected).unexpected).toEqual([
    '1 × 500 while nothing was away; the first at 00:00:01.000, the last at 00:00:01.000',
  ]);
});
