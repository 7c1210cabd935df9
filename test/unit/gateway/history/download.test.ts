import { bounded, maxDownloadEvents } from '../../../../src/gateway/history/download.ts';

const json = Buffer.from('{}');
const part = Array.from({ length: 1000 }, (_, position) => ({ id: 'e', position, json }));

async function* parts(count: number) {
  for (let left = count; left > 0; left--) yield await Promise.resolve(part);
}

async function read(count: number): Promise<number> {
  let events = 0;
  for await (const items of bounded(parts(count), 'c1')) events += items.length;
  return events;
}

describe('a download', () => {
  it('has all events up to the maximum', async () => {
    expect(await read(maxDownloadEvents / 1000)).toBe(maxDownloadEvents);
  });

  it('fails behind it, for an agent that sends events without end', async () => {
    await expect(read(Infinity)).rejects.toMatchObject({ code: 'history-too-large', status: 413 });
  });
});
