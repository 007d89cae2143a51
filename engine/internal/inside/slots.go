package inside

// The rooms keep values of their own in messages and batches. Package engine can't name their types, since the rooms
// import it. It knows them by these interfaces instead, each of which one type implements.
type (
	Trial   interface{ IsTrial(Key) }   // retry.Trial: the message is tried again
	Block   interface{ IsBlock(Key) }   // steps.frame: the block of steps that the message is in
	Claim   interface{ IsClaim(Key) }   // order.Claim: where the message holds its order key
	Branch  interface{ IsBranch(Key) }  // stage.branch: how the message reached the output, if that is a composite
	Batcher interface{ IsBatcher(Key) } // stage.batcher: the batch goes through it, or has gone through it
	Place   interface{ IsPlace(Key) }   // stage.stage: the output or group where the batch is to be tried again
	Input   interface{ IsInput(Key) }   // stage.InputPlan: the messages are in its own steps
	Turn    interface{ IsTurn(Key) }    // stage.entry: the batch waits for others with its keys
)
