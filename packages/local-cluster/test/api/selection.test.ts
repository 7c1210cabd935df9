import { parseFieldSelector, labelMatcher } from '../../src/api/selection.ts';
import { ageOf, humanDuration } from '@conversation-operator/kube/object';
import { negotiate } from '../../src/api/serializer.ts';

describe('a label selector', () => {
  it('is not fooled by the prototype', () => {
    expect(labelMatcher('constructor')?.({ app: 'x' })).toBe(false);
  });

  it('that is empty selects everything', () => {
    expect(labelMatcher('')).toBeUndefined();
  });
});

describe('a field selector', () => {
  it('is a list of requirements', () => {
    expect(parseFieldSelector(String.raw`a.b=c,d!=e\,f`)).toEqual([
      { field: 'a.b', negated: false, value: 'c' },
      { field: 'd', negated: true, value: 'e,f' },
    ]);
  });
});

describe('an age', () => {
  const second = 1000;
  const minute = 60 * second;
  const hour = 60 * minute;
  const day = 24 * hour;

  it.each([
    [-5 * second, '<invalid>'],
    [0, '0s'],
    [119 * second, '119s'],
    [2 * minute, '2m'],
    [3 * minute + 12 * second, '3m12s'],
    [10 * minute + 5 * second, '10m'],
    [179 * minute, '179m'],
    [3 * hour + 30 * minute, '3h30m'],
    [9 * hour, '9h'],
    [47 * hour, '47h'],
    [49 * hour, '2d1h'],
    [12 * day, '12d'],
    [(365 * 2 + 30) * day, '2y30d'],
    [365 * 9 * day, '9y'],
  ])('of %d ms is %s', (ms, expected) => {
    expect(humanDuration(ms)).toBe(expected);
  });

  it('of nothing is unknown', () => {
    expect(ageOf(undefined, 0)).toBe('<unknown>');
  });
});

describe('the form of an answer', () => {
  it.each([
    [undefined, 'Object'],
    ['*/*', 'Object'],
    ['application/json', 'Object'],
    ['application/json;as=Table;v=v1;g=meta.k8s.io,application/json', 'Table'],
    ['application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json', 'Object'],
    [
      'application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
      'PartialObjectMetadata',
    ],
    ['application/vnd.kubernetes.protobuf,application/json', 'Object'],
  ])('for %s is %s', (accept, as) => {
    expect(negotiate(accept)).toMatchObject({ as });
  });

  it('that is not known is refused', () => {
    expect(() => negotiate('text/html')).toThrow('only the following media types');
  });
});
