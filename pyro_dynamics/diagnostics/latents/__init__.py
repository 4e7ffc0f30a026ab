"""What have the latents learned?"""
