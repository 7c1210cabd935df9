import { readFileSync, readdirSync } from 'node:fs';
import { crdFiles } from '../../../src/commands/crds.ts';
import { definitions } from '../../../src/resources/crd.ts';

const folder = new URL('../../../crds/', import.meta.url);

describe('the folder of the CRDs in the chart', () => {
  it('holds one file for each kind and nothing else', () => {
    expect(readdirSync(folder).sort()).toEqual([...crdFiles().keys()].sort());
    expect(definitions).toHaveLength(7);
  });

  it.each([...crdFiles()])('%s is what the schemas say (make crds)', (name, text) => {
    expect(readFileSync(new URL(name, folder), 'utf8')).toBe(text);
  });
});
