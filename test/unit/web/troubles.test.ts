import {
  bytes,
  isPoolInTrouble,
  isWebAddress,
  ofLimit,
  quotaUse,
  troublesOf,
} from '../../../src/web/troubles.ts';
import { nextPageOf } from '../../../src/web/reading.ts';
import { delayAfter } from '../../../src/web/times.ts';
import type { OverviewRecord, Pool, Quota } from '../../../src/web/wire.ts';
import { anOverview } from '../../support/page-overview.ts';

const well = anOverview();
const leader = { shard: null, holder: 'op-1', renewed_at: null, is_live: true };
const cache = {
  kind: 'Sandbox',
  objects: 1,
  is_synced: true,
  is_interrupted: false,
  news_age_seconds: 1,
};
const aQuota: Quota = {
  name: 'default',
  scope: 'Owner',
  owner: null,
  limit: 10,
  on_exceeded: 'Queue',
  auto_resume: 'All',
  active: 0,
  waiting: 0,
  paused: 0,
  full_owners: 0,
  conflict: null,
};
const aPool = (fields: Partial<Pool>): Pool => ({
  name: 'warm',
  template: 'default',
  wanted: 2,
  ready: 0,
  is_ready: false,
  reason: 'SpareFailed',
  message: null,
  ...fields,
});
const list = <T>(...items: readonly T[]) => ({ total: items.length, items: [...items] });
const quota = (conflict: string | null) => ({
  name: 'all',
  scope: 'Owner' as const,
  owner: null,
  limit: 1,
  on_exceeded: 'Queue' as const,
  auto_resume: 'All' as const,
  active: 1,
  waiting: 4,
  paused: 0,
  full_owners: 1,
  conflict,
});
const template = (isValid: boolean | null) => ({
  name: 'default',
  is_valid: isValid,
  reason: null,
  message: null,
});

describe('what is wrong with the service', () => {
  it.each<[string, Partial<OverviewRecord>, readonly string[]]>([
    ['nothing', {}, []],
    ['nothing where no leader is elected', { leaders: null }, []],
    ['nothing in a full quota', { quotas: list(quota(null)) }, []],
    ['nothing in a template that is not checked yet', { templates: list(template(null)) }, []],
    [
      'no leader',
      { leaders: [{ ...leader, holder: null, is_live: false }] },
      ['No operator leads: starts and resumes wait.'],
    ],
    [
      'a shard without a leader',
      { leaders: [{ ...leader, shard: 3, holder: null, is_live: false }] },
      ['No operator leads shard 3: starts and resumes wait.'],
    ],
    [
      'a leader that is silent',
      { leaders: [{ ...leader, shard: 3, is_live: false }] },
      ['The leader of shard 3, op-1, does not renew its Lease.'],
    ],
    [
      'a watch that is interrupted',
      { caches: [{ ...cache, is_interrupted: true }] },
      ['The watch of Sandbox objects is interrupted: figures may be old.'],
    ],
    [
      'a cache without its first list',
      { caches: [{ ...cache, is_synced: false }] },
      ['The Sandbox objects are not read yet: the right to list them may be missing.'],
    ],
    ['no template', { templates: list() }, ['There is no template: no start can succeed.']],
    [
      'invalid templates',
      { templates: list(template(false), template(false), template(true)) },
      ['2 templates are invalid.'],
    ],
    ['a pool', { pools: list(aPool({})) }, ['1 pool can not make warm sandboxes.']],
    ['a conflict', { quotas: list(quota('with: other')) }, ['1 quota has a conflict.']],
  ])('is %s', (_what, fields, texts) => {
    expect(troublesOf({ ...well, ...fields }).map(({ text }) => text)).toEqual(texts);
  });
});

it.each([
  [{}, true],
  [{ reason: 'TemplateNotFound' }, true],
  [{ reason: 'Refilling' }, false],
  [{ reason: 'WaitingForRoom' }, false],
  [{ is_ready: true, reason: 'Full' }, false],
  [{ is_ready: null, reason: null }, false],
])('knows whether a pool with %j is in trouble', (fields, isInTrouble) => {
  expect(isPoolInTrouble(aPool(fields))).toBe(isInTrouble);
});

it.each([
  [3, 10, '3 of 10'],
  [3, null, '3'],
  [null, 4, '– of 4'],
  [4, 2, '4 of 2, 2 above it'],
])('shows %p of %p as %s', (active, limit, text) => {
  expect(ofLimit(active, limit)).toBe(text);
});

it.each([
  ['every owner', { owner: null, active: 4, limit: 2 }, '4 in all, 2 for each'],
  ['one owner', { owner: 'bob', active: 4, limit: 2 }, '4 of 2, 2 above it'],
  ['all owners together', { scope: 'Namespace' as const, active: 4, limit: 9 }, '4 of 9'],
  ['owners that are not counted yet', { active: null, limit: 9 }, '– in all, 9 for each'],
])('shows the use of a quota for %s', (_case, fields, text) => {
  expect(quotaUse({ ...aQuota, ...fields })).toBe(text);
});

it.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1024, '1.0 KiB'],
  [12_345, '12 KiB'],
  [5 * 2 ** 20, '5.0 MiB'],
  [3 * 2 ** 40, '3.0 TiB'],
  [2 ** 52, '4096 TiB'],
])('shows %d bytes as %s', (value, text) => {
  expect(bytes(value)).toBe(text);
});

it.each([
  ['https://grafana.example/d/1', true],
  ['http://127.0.0.1:9464/metrics', true],
  ['javascript:alert(1)', false],
  ['data:text/html,x', false],
  ['/metrics', false],
])('takes %s for an address of the web: %p', (text, isSafe) => {
  expect(isWebAddress(text)).toBe(isSafe);
});

it.each([
  [0, 5_000],
  [1, 10_000],
  [3, 40_000],
  [4, 60_000],
  [1_000, 60_000],
])('waits after %d failures for %d ms', (failures, ms) => {
  expect(delayAfter(failures)).toBe(ms);
});

it.each([
  [null, undefined],
  ['<https://a.example/api/keys?owner=*&page_id=x%3D>; rel="next"', 'x='],
  ['<https://a.example/api/keys?page_id=x>; rel="prev"', undefined],
  ['<https://a.example/api/keys>; rel="next"', undefined],
  ['<not an address>; rel="next"', undefined],
])('finds the next page of the header Link %p', (link, id) => {
  expect(nextPageOf(link)).toBe(id);
});
