// Loaded by `node --import` into jest and into the processes that a test starts with its own
// environment: they run the product with the mistake as well.
import { mutateSource } from '../simulation/mutants/mutated-source.ts';
import { wantedMutation } from './mutation.ts';

const mutation = wantedMutation(process.env);
if (mutation !== undefined) mutateSource(mutation);
