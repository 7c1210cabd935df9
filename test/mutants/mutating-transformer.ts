import { fileURLToPath } from 'node:url';
import type { TransformOptions } from '@jest/transform';
import { createTransformer } from '@swc/jest';
import { mutatedText } from '../simulation/mutants/mutated-source.ts';
import { wantedMutation } from './mutation.ts';

/** Gives jest the TypeScript of the tests and of the product, and one file with its mistake. */
export default {
  createTransformer: (options: Parameters<typeof createTransformer>[0]) => {
    const mutation = wantedMutation(process.env);
    if (mutation === undefined) throw new Error('No mutation is wanted');
    const mutated = fileURLToPath(new URL(`../../${mutation.file}`, import.meta.url));
    const { process: transform, getCacheKey } = createTransformer(options);
    if (transform === undefined || getCacheKey === undefined)
      throw new Error('The transformer of the tests is expected to be synchronous');
    const textOf = (text: string, path: string) =>
      path === mutated ? mutatedText(mutation) : text;
    return {
      process: (text: string, path: string, given: TransformOptions) =>
        transform(textOf(text, path), path, given),
      // jest keeps transformed files by this key for later runs.
      getCacheKey: (text: string, path: string, given: TransformOptions) =>
        getCacheKey(textOf(text, path), path, given),
    };
  },
};
