#include "textflag.h"

// func int80(nr, a, b, c uint32) int32
TEXT ·int80(SB), NOSPLIT, $0-20
	MOVL nr+0(FP), AX
	MOVL a+4(FP), BX
	MOVL b+8(FP), CX
	MOVL c+12(FP), DX
	MOVL $0, SI
	MOVL $0, DI
	INT  $0x80
	MOVL AX, ret+16(FP)
	RET
